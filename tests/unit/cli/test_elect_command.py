"""`tailrace elect`, in a pipe."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Run
from tests.unit.cli.trio import trio

from tailrace.testing import Broker


async def test_the_preferred_replica_leads_again_after_a_restart(run: Run, topic: str) -> None:
    async with trio(run) as brokers:
        first, second = await brokers.create(topic)
        await brokers.stop(first)
        await brokers.until(topic, lambda found: found.leader == second)
        status, output, _ = await brokers.call("elect", "preferred", topic)
        assert status == 1
        assert output.startswith(f"{topic}-0\tPREFERRED_LEADER_NOT_AVAILABLE")
        await brokers.start(first)
        await brokers.until(topic, lambda found: len(found.isr) == 2)
        assert await brokers.call("elect", "preferred", topic) == (0, f"{topic}-0\telected\n", "")
        await brokers.until(topic, lambda found: found.leader == first)
        assert await brokers.call("elect", "preferred", topic, "--partition", "0") == (
            0,
            f"{topic}-0\tnot needed\n",
            "",
        )
        assert await brokers.call("elect", "preferred", "--all") == (0, "", "")


async def test_an_unclean_election_gives_a_partition_a_leader(run: Run, topic: str) -> None:
    async with trio(run) as brokers:
        first, second = await brokers.create(topic)
        await brokers.stop(second)
        await brokers.until(topic, lambda found: found.isr == (first,))
        await brokers.stop(first)
        await brokers.until(topic, lambda found: found.leader < 0)
        await brokers.start(second)
        status, output, _ = await brokers.call("elect", "unclean", topic, "--json")
        assert (status, json.loads(output)) == (0, [{"topic": topic, "partition": 0, "elected": True, "error": None}])
        await brokers.until(topic, lambda found: found.leader == second)


def test_partitions_come_from_a_file(run: Run, tailrace_broker: Broker, topic: str, tmp_path: Path) -> None:
    tailrace_broker.create_topic(topic, partitions=2)
    file = tmp_path / "partitions.json"
    partitions = [{"topic": topic, "partition": 1}, {"topic": f"{topic}x", "partition": 0}]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    status, output, error = run("elect", "preferred", "--file", str(file))
    assert (status, error) == (1, "")
    good, bad = output.splitlines()
    assert good == f"{topic}-1\tnot needed"
    assert bad.startswith(f"{topic}x-0\tUNKNOWN_TOPIC_OR_PARTITION: ")


def test_a_partition_that_is_not_there_is_named(run: Run, tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.create_topic(topic, partitions=2)
    error = f"tailrace: topic {topic} has no partition 7; it has 2\n"
    assert run("elect", "preferred", topic, "--partition", "7") == (1, "", error)
    assert run("elect", "unclean", f"{topic}x")[2] == f"tailrace: UNKNOWN_TOPIC_OR_PARTITION: topic {topic}x\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a TOPIC, or set --file or --all"),
        (("t", "--all"), "name a TOPIC, or set --file or --all"),
        (("--all", "--partition", "0"), "--partition needs a TOPIC"),
        (("t", "--partition", "-1"), "-1 is not in the range"),
        (("--file", "{file}"), "is not of the form"),
        (("--file", "{empty}"), "names no partition"),
    ],
)
def test_wrong_calls(run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "file").write_text('{"partitions": [{}]}')
    (tmp_path / "empty").write_text('{"partitions": []}')
    words = [word.format(file=tmp_path / "file", empty=tmp_path / "empty") for word in arguments]
    status, output, error = run("elect", "preferred", *words)
    assert (status, output) == (2, "")
    assert message in error
