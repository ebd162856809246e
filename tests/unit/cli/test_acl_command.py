"""`tailrace acl`, in a pipe."""

import json
from collections.abc import Callable, Iterator

import pytest

from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    options = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(options) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def acl(run: Run, secured: str) -> Iterator[Run]:
    """The command at a broker that has no ACLs."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return run("acl", *arguments, "--bootstrap-server", secured)

    yield call
    call("delete", "--all")


def test_an_acl_is_added_listed_and_deleted(acl: Run) -> None:
    line = "allow read on topic orders to User:alice from *"
    arguments = ("--principal", "User:alice", "--operation", "read", "--topic", "orders")
    assert acl("add", *arguments) == (0, f"added {line}\n", "")
    assert acl("add", *arguments) == (0, f"added {line}\n", "")
    assert acl("list") == (0, f"{line}\n", "")
    assert json.loads(acl("list", "--json")[1]) == [
        {
            "resourceType": "topic",
            "name": "orders",
            "patternType": "literal",
            "principal": "User:alice",
            "host": "*",
            "operation": "read",
            "permission": "allow",
        }
    ]
    assert acl("delete", *arguments) == (0, f"deleted {line}\n", "")
    assert acl("list") == (0, "", "")
    status, output, error = acl("delete", *arguments)
    assert (status, output) == (1, "")
    assert "no ACL has these properties" in error


def test_every_combination_is_added(acl: Run) -> None:
    principals = ("--principal", "User:alice", "--principal", "User:bob")
    resources = ("--topic", "a", "--group", "g", "--transactional-id", "t", "--cluster")
    lines = acl("add", *principals, "--operation", "Describe", "--operation", "all", *resources)[1].splitlines()
    assert len(lines) == len(set(lines)) == 16
    assert "added allow describe on cluster kafka-cluster to User:bob from *" in lines
    assert "added allow all on transactional_id t to User:alice from *" in lines
    assert acl("list", "--principal", "User:bob", "--operation", "all", "--group", "g")[1].splitlines() == [
        "allow all on group g to User:bob from *"
    ]
    assert len(acl("delete", "--cluster")[1].splitlines()) == 4
    assert len(acl("list")[1].splitlines()) == 12


def test_denials_prefixes_and_hosts(acl: Run) -> None:
    everybody = ("--principal", "User:*")
    acl("add", *everybody, "--operation", "write", "--topic", "orders-", "--prefix", "--deny", "--host", "10.0.0.1")
    acl("add", *everybody, "--operation", "describe-configs", "--topic", "*")
    acl("add", *everybody, "--operation", "DescribeConfigs", "--topic", "orders-1")
    denial = "deny write on topic prefixed orders- to User:* from 10.0.0.1"
    assert acl("list", "--deny")[1] == f"{denial}\n"
    # What applies to a topic is listed for it, and only what has its name is deleted with it.
    assert len(acl("list", "--topic", "orders-1")[1].splitlines()) == 3
    assert acl("list", "--topic", "orders-", "--prefix")[1] == f"{denial}\n"
    assert acl("delete", "--topic", "orders-1")[1].splitlines() == [
        "deleted allow describe_configs on topic orders-1 to User:* from *"
    ]
    assert acl("delete", "--topic", "orders-")[0] == 1
    assert acl("delete", "--topic", "orders-", "--prefix")[1] == f"deleted {denial}\n"


def test_rights_for_tokens_can_be_given(acl: Run) -> None:
    acl("add", "--principal", "User:a", "--operation", "create_tokens", "--user-principal", "User:b")
    acl("add", "--principal", "User:a", "--operation", "describe", "--delegation-token", "*")
    assert acl("list")[1].splitlines() == [
        "allow describe on delegation_token * to User:a from *",
        "allow create_tokens on user User:b to User:a from *",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--operation", "read", "--topic", "t"), "Missing option '--principal'"),
        (("--principal", "User:a", "--topic", "t"), "set at least one --operation"),
        (("--principal", "User:a", "--operation", "read"), "set at least one resource"),
        (("--principal", "alice", "--operation", "read", "--topic", "t"), "the form TYPE:NAME"),
        (("--principal", "User:", "--operation", "read", "--topic", "t"), 'principal "User:" has no name'),
        (("--principal", "User:a", "--operation", "fly", "--topic", "t"), "'fly' is not an operation; there are all,"),
        (("--principal", "User:a", "--operation", "write", "--group", "g"), "GROUP has no operation WRITE"),
        (("--principal", "User:a", "--operation", "read", "--topic", "t", "--host", "pc"), "must be an IP address"),
        (("--principal", "User:a", "--operation", "read", "--topic", ""), "must not be empty"),
        (("--principal", "User:a", "--operation", "read", "--topic", "*", "--prefix"), 'use LITERAL "*"'),
    ],
)
def test_an_acl_without_an_effect_is_not_added(acl: Run, arguments: tuple[str, ...], words: str) -> None:
    status, output, error = acl("add", *arguments)
    assert (status, output) == (2, "")
    assert words in error
    assert acl("list")[1] == ""


def test_all_are_deleted_only_on_demand(acl: Run) -> None:
    acl("add", "--principal", "User:a", "--operation", "read", "--topic", "t")
    for arguments in ((), ("--all", "--topic", "t")):
        status, _, error = acl("delete", *arguments)
        assert status == 2
        assert "delete --all of them" in error
    assert len(acl("list")[1].splitlines()) == 1
    assert len(acl("delete", "--all")[1].splitlines()) == 1


def test_a_broker_without_an_authorizer_says_so(run: Run) -> None:
    refusal = "tailrace: SECURITY_DISABLED: No Authorizer is configured on the broker\n"
    assert run("acl", "list") == (1, "", refusal)
    arguments = ("--principal", "User:a", "--operation", "read", "--topic", "t")
    assert run("acl", "add", *arguments) == (1, "", "tailrace: SECURITY_DISABLED: No Authorizer is configured.\n")
