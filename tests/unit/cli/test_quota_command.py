"""`tailrace quota`, in a pipe."""

import json
from collections.abc import Callable, Iterator

import pytest

from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def quota(run: Run, bootstrap: str) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        return run("quota", *arguments, "--bootstrap-server", bootstrap)

    return call


def test_quotas_are_set_listed_and_deleted(quota: Run) -> None:
    alice = ("--user", "alice")
    line = "user alice: producer_byte_rate=1048576 request_percentage=12.5"
    assert quota("set", *alice, "producer_byte_rate=1048576", "request_percentage=12.5") == (0, f"set {line}\n", "")
    pair = ("--user", "alice", "--default", "client-id")
    assert quota("set", *pair, "consumer_byte_rate=1e9")[0] == 0
    pair_line = "user alice client-id <default>: consumer_byte_rate=1000000000"
    assert quota("list", *alice) == (0, f"{line}\n{pair_line}\n", "")
    assert json.loads(quota("list", *pair, "--json")[1]) == [
        {"entity": {"user": "alice", "client-id": None}, "quotas": {"consumer_byte_rate": 1e9}}
    ]
    deleted = "deleted user alice: producer_byte_rate=1048576\n"
    assert quota("delete", *alice, "producer_byte_rate") == (0, deleted, "")
    assert quota("delete", *alice)[1] == "deleted user alice: request_percentage=12.5\n"
    status, output, error = quota("delete", *alice)
    assert (status, output) == (1, "")
    assert "user alice has no quota" in error
    assert quota("list", *alice)[1] == f"{pair_line}\n"
    quota("delete", *pair)


def test_an_address_has_a_rate_of_connections(quota: Run) -> None:
    assert quota("set", "--ip", "10.0.0.1", "connection_creation_rate=5")[0] == 0
    assert quota("list", "--ip", "10.0.0.1")[1] == "ip 10.0.0.1: connection_creation_rate=5\n"
    assert quota("delete", "--ip", "10.0.0.1")[0] == 0


def test_the_broker_says_what_it_refuses(quota: Run) -> None:
    status, _, error = quota("set", "--user", "a", "producer_byte_rate=0.5")
    assert status == 1
    assert "producer_byte_rate cannot be a fractional value." in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "--user", "a"), "Missing argument"),
        (("set", "producer_byte_rate=1"), "name the clients with --user"),
        (("set", "--user", "a", "producer_byte_rate"), "is not NAME=VALUE"),
        (("set", "--user", "a", "producer_byte_rate=x"), "'x' is not a number"),
        (("set", "--user", "a", "foo=1"), "'foo' is not a quota; there are producer_byte_rate"),
        (("set", "--user", "a", "producer_byte_rate=1", "producer_byte_rate=2"), "is given twice"),
        (("set", "--user", "a", "--default", "user", "producer_byte_rate=1"), "name one user or its default"),
        (("set", "--user", "a", "--ip", "::1", "producer_byte_rate=1"), "do not combine --ip"),
        (("delete", "--user", "a", "foo"), "'foo' is not a quota"),
        (("delete",), "name the clients with --user"),
    ],
)
def test_wrong_calls(quota: Run, arguments: tuple[str, ...], message: str) -> None:
    status, output, error = quota(*arguments)
    assert (status, output) == (2, "")
    assert message in error
