"""`tailrace transaction`, in a pipe."""

import json
from collections.abc import Callable, Iterator

import pytest

import tailrace
from tailrace.client.admin.transaction import TransactionAdmin
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def opened(tailrace_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A topic, and the id of a producer that is in a transaction there."""
    monkeypatch.setenv("TAILRACE_BOOTSTRAP_SERVER", tailrace_broker.bootstrap_servers)
    tailrace_broker.create_topic(topic, 2)
    with tailrace.Producer(tailrace_broker.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"before", partition=1)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=1).result(60)
        yield topic


def test_transactions_are_listed_and_described(run: Run, opened: str) -> None:
    assert opened in run("transaction", "list")[1].splitlines()
    listed = json.loads(run("transaction", "list", "--state", "ongoing", "--pattern", opened, "--json")[1])
    assert [(item["name"], item["state"]) for item in listed] == [(opened, "Ongoing")]
    assert run("transaction", "list", "--pattern", opened, "--running", "1h") == (0, "", "")
    described = json.loads(run("transaction", "describe", opened, "--json")[1])
    assert (described["state"], described["timeoutMs"]) == ("Ongoing", 60_000)
    assert described["partitions"] == [{"topic": opened, "partition": 1}]
    lines = run("transaction", "describe", opened)[1].splitlines()
    assert lines[0].startswith(f"transactional id {opened} · Ongoing · producer {described['producer']} · epoch ")
    assert lines[1:] == [f"partition {opened}-1"]


def test_producers_of_a_topic_are_shown(run: Run, opened: str) -> None:
    (line,) = run("transaction", "producers", opened)[1].splitlines()
    assert line.startswith(f"producer {opened}-1 producer ")
    assert " start-offset 2 " in line
    assert run("transaction", "producers", opened, "--partition", "0") == (0, "", "")
    (found,) = json.loads(run("transaction", "producers", opened, "--partition", "1", "--json")[1])
    assert (found["topic"], found["partition"], found["startOffset"], found["lastSequence"]) == (opened, 1, 2, 0)


def test_an_open_transaction_is_aborted_by_its_id(run: Run, opened: str) -> None:
    status, output, error = run("transaction", "abort", opened)
    assert (status, error) == (0, "")
    assert output.startswith(f"aborted the open transaction of {opened}; its producers are fenced by epoch ")
    assert json.loads(run("transaction", "describe", opened, "--json")[1])["state"] == "Empty"
    assert json.loads(run("transaction", "abort", opened, "--json")[1])["aborted"] is True


def test_what_hangs_is_found_and_aborted(run: Run, opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = ("transaction", "list", "--hanging", "--topic", opened, "--open-for", "0s")
    assert run(*hanging) == (0, "", "")  # its coordinator will end it

    async def forget(self: TransactionAdmin, producer_ids: object) -> dict[int, tuple[tailrace.TopicPartition, ...]]:
        return {}

    monkeypatch.setattr(TransactionAdmin, "_known_partitions", forget)
    assert run("transaction", "list", "--hanging", "--topic", opened) == (0, "", "")  # not for a quarter of an hour
    assert run(*hanging)[1].startswith(f"hanging {opened}-1 producer ")
    (found,) = json.loads(run(*hanging, "--json")[1])
    place = ("--topic", opened, "--partition", "1", "--start-offset")
    assert "no transaction is open" in run("transaction", "abort", *place, "0")[2]
    status, output, _ = run("transaction", "abort", *place, str(found["startOffset"]))
    assert (status, output) == (0, f"aborted the transaction of producer {found['producer']} in {opened}-1\n")
    assert run(*hanging) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("abort",), "set TRANSACTIONAL_ID, or --topic"),
        (("abort", "id", "--topic", "t"), "cannot be combined with --topic"),
        (("list", "--hanging", "--state", "Ongoing"), "--hanging cannot be combined"),
        (("list", "--topic", "t"), "need --hanging"),
        (("list", "--state", "Wrong"), "is not one of"),
    ],
)
def test_wrong_arguments_are_explained(run: Run, arguments: tuple[str, ...], words: str) -> None:
    status, _, error = run("transaction", *arguments)
    assert status == 2
    assert words in error


def test_what_is_not_there_is_said(run: Run, opened: str) -> None:
    for command in ("describe", "abort"):
        status, output, error = run("transaction", command, f"no-{opened}")
        assert (status, output) == (1, "")
        assert f"there is no transactional id no-{opened}" in error
