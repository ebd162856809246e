"""Decisions of the authorizer, rule by rule."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.machines.authorization.authorizer import Authorizer
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.vocabulary import CLUSTER_NAME, Operation, PatternType, Permission, Resource

HOST = "10.0.0.1"


def acl(text: str, resource: Resource = Resource.TOPIC) -> AclBinding:
    """Read `allow User:alice READ orders` or `deny User:alice@10.0.0.1 READ orders-...`, with dots after a prefix."""
    permission, client, operation, name = text.split()
    principal, _, host = client.partition("@")
    pattern_type = PatternType.PREFIXED if name.endswith("...") else PatternType.LITERAL
    return AclBinding(
        resource,
        name.removesuffix("..."),
        pattern_type,
        principal,
        host or "*",
        Operation[operation],
        Permission[permission.upper()],
    )


def acls(text: str) -> list[AclBinding]:
    return [acl(line) for line in text.split(",") if line.strip()]


DECISIONS = {
    "nothing is allowed without an ACL": ("", Operation.READ, "orders", False),
    "a literal name": ("allow User:alice READ orders", Operation.READ, "orders", True),
    "a literal name is no prefix": ("allow User:alice READ orders", Operation.READ, "orders-eu", False),
    "a prefix": ("allow User:alice READ orders...", Operation.READ, "orders-eu", True),
    "a prefix that is the whole name": ("allow User:alice READ orders...", Operation.READ, "orders", True),
    "a prefix longer than the name": ("allow User:alice READ orders...", Operation.READ, "order", False),
    "the wildcard": ("allow User:alice READ *", Operation.READ, "orders", True),
    "a prefix has no wildcard": ("allow User:alice READ *...", Operation.READ, "orders", False),
    "another principal": ("allow User:bob READ orders", Operation.READ, "orders", False),
    "another type of principal": ("allow Group:alice READ orders", Operation.READ, "orders", False),
    "every principal": ("allow User:* READ orders", Operation.READ, "orders", True),
    "no other wildcard of principals": ("allow Group:* READ orders", Operation.READ, "orders", False),
    "the client's host": ("allow User:alice@10.0.0.1 READ orders", Operation.READ, "orders", True),
    "another host": ("allow User:alice@10.0.0.2 READ orders", Operation.READ, "orders", False),
    "another operation": ("allow User:alice WRITE orders", Operation.READ, "orders", False),
    "ALL": ("allow User:alice ALL orders", Operation.READ, "orders", True),
    "a deny wins": ("allow User:alice READ orders,deny User:alice READ orders", Operation.READ, "orders", False),
    "a general deny wins": ("allow User:alice READ orders,deny User:* ALL *", Operation.READ, "orders", False),
    "a prefixed deny wins": ("allow User:alice READ orders,deny User:* READ o...", Operation.READ, "orders", False),
    "a deny of ALL": ("allow User:alice READ orders,deny User:alice ALL orders", Operation.READ, "orders", False),
    "a deny elsewhere": ("allow User:alice READ orders,deny User:alice READ bills", Operation.READ, "orders", True),
    "a deny for another host": (
        "allow User:alice READ orders,deny User:alice@10.0.0.2 READ orders",
        Operation.READ,
        "orders",
        True,
    ),
    "a deny of READ leaves DESCRIBE": (
        "allow User:alice WRITE orders,deny User:alice READ orders",
        Operation.DESCRIBE,
        "orders",
        True,
    ),
    "a deny of DESCRIBE leaves READ": (
        "allow User:alice READ orders,deny User:alice DESCRIBE orders",
        Operation.READ,
        "orders",
        True,
    ),
    "READ does not beat a deny of DESCRIBE": (
        "allow User:alice READ orders,deny User:alice DESCRIBE orders",
        Operation.DESCRIBE,
        "orders",
        False,
    ),
}


@pytest.mark.parametrize(("bindings", "operation", "name", "expected"), DECISIONS.values(), ids=DECISIONS)
def test_decision(bindings: str, operation: Operation, name: str, expected: bool) -> None:
    authorizer = Authorizer(acls(bindings))
    assert authorizer.authorize("User:alice", HOST, operation, Resource.TOPIC, name) is expected


@pytest.mark.parametrize("operation", Operation)
def test_implied_operations(operation: Operation) -> None:
    authorizer = Authorizer([acl(f"allow User:alice {operation.name} orders")])
    describes = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE, Operation.ALL}
    configs = {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, Operation.ALL}
    ask = ("User:alice", HOST)
    assert authorizer.authorize(*ask, Operation.DESCRIBE, Resource.TOPIC, "orders") is (operation in describes)
    assert authorizer.authorize(*ask, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "orders") is (operation in configs)


def test_types_of_resources_are_separate() -> None:
    authorizer = Authorizer([acl("allow User:alice READ orders", Resource.GROUP)])
    assert authorizer.authorize("User:alice", HOST, Operation.READ, Resource.GROUP, "orders")
    assert not authorizer.authorize("User:alice", HOST, Operation.READ, Resource.TOPIC, "orders")


@pytest.mark.parametrize("name", [CLUSTER_NAME, CLUSTER_NAME + "..."])
def test_cluster_is_a_resource_as_any_other(name: str) -> None:
    authorizer = Authorizer([acl(f"allow User:alice ALTER {name}", Resource.CLUSTER)])
    assert authorizer.authorize("User:alice", HOST, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)


def test_super_users_may_do_everything_and_have_no_wildcard() -> None:
    authorizer = Authorizer(acls("deny User:* ALL *"), super_users=frozenset({"User:root", "User:*"}))
    assert authorizer.authorize("User:root", HOST, Operation.DELETE, Resource.TOPIC, "orders")
    assert authorizer.authorize_by_resource_type("User:root", HOST, Operation.WRITE, Resource.TOPIC)
    assert not authorizer.authorize("User:alice", HOST, Operation.DELETE, Resource.TOPIC, "orders")
    assert not authorizer.authorize("Group:root", HOST, Operation.DELETE, Resource.TOPIC, "orders")


@pytest.mark.parametrize(
    ("bindings", "name", "expected"),
    [
        ("", "orders", True),
        ("allow User:bob READ bills", "orders", True),
        ("allow User:bob READ orders", "orders", False),
        ("deny User:bob@10.0.0.2 ALTER orders", "orders", False),
        ("allow User:bob READ ord...", "orders", False),
        ("allow User:bob READ ord...", "bills", True),
        ("allow User:bob READ *", "orders", False),
        ("allow User:alice READ ord...", "orders", True),
    ],
)
def test_everyone_is_allowed_where_no_acl_is_found(bindings: str, name: str, expected: bool) -> None:
    """An ACL is found by its pattern alone: it closes the resource to principals that it does not name."""
    authorizer = Authorizer(acls(bindings), allow_everyone_if_no_acl_found=True)
    assert authorizer.authorize("User:alice", HOST, Operation.READ, Resource.TOPIC, name) is expected


@pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"])
def test_every_spelling_of_an_address_applies(written: str) -> None:
    authorizer = Authorizer([acl(f"allow User:alice@{written} READ orders")])
    for host in ("::1", "0:0:0:0:0:0:0:1"):
        assert authorizer.authorize("User:alice", host, Operation.READ, Resource.TOPIC, "orders")


def test_an_ipv4_client_of_a_listener_on_both_families_is_denied_by_its_ipv4_address() -> None:
    authorizer = Authorizer(acls("allow User:alice READ orders,deny User:alice@10.0.0.1 READ orders"))
    assert not authorizer.authorize("User:alice", "::ffff:10.0.0.1", Operation.READ, Resource.TOPIC, "orders")


def test_two_spellings_of_an_address_are_two_bindings() -> None:
    short, long = acl("allow User:a@::1 READ t"), acl("allow User:a@0:0:0:0:0:0:0:1 READ t")
    authorizer = Authorizer([short, long])
    assert authorizer.remove(short)
    assert authorizer.authorize("User:a", "::1", Operation.READ, Resource.TOPIC, "t")
    assert authorizer.remove(long)
    assert not authorizer.authorize("User:a", "::1", Operation.READ, Resource.TOPIC, "t")


def test_adding_twice_is_adding_once() -> None:
    binding = acl("allow User:alice READ orders")
    authorizer = Authorizer()
    assert [authorizer.add(binding), authorizer.add(binding), len(authorizer)] == [True, False, 1]
    assert [authorizer.remove(binding), authorizer.remove(binding), len(authorizer)] == [True, False, 0]


def test_names_that_sort_before_the_wildcard() -> None:
    """Kafka 4.3.1 fails here with a StringIndexOutOfBoundsException: `#` sorts before `*`."""
    authorizer = Authorizer([acl("allow User:alice READ #abd...", Resource.GROUP)])
    assert not authorizer.authorize("User:alice", HOST, Operation.READ, Resource.GROUP, "#abc")
    assert authorizer.authorize("User:alice", HOST, Operation.READ, Resource.GROUP, "#abde")


def test_the_wildcard_applies_to_names_that_start_with_it() -> None:
    """In Kafka 4.3.1 it does not: a DENY for every group leaves the group `*a` open."""
    authorizer = Authorizer([acl("deny User:* ALL *", Resource.GROUP)], allow_everyone_if_no_acl_found=True)
    assert not authorizer.authorize("User:alice", HOST, Operation.READ, Resource.GROUP, "*a")


BY_TYPE = {
    "no ACL": ("", False),
    "a literal": ("allow User:alice WRITE orders", True),
    "a prefix": ("allow User:alice WRITE orders...", True),
    "the wildcard": ("allow User:alice WRITE *", True),
    "another operation": ("allow User:alice READ orders", False),
    "ALL": ("allow User:alice ALL orders", True),
    "another host": ("allow User:alice@10.0.0.2 WRITE orders", False),
    "every principal": ("allow User:* WRITE orders", True),
    "a wildcard deny": ("allow User:alice WRITE orders,deny User:* WRITE *", False),
    "a wildcard deny of another operation": ("allow User:alice WRITE orders,deny User:* READ *", True),
    "a wildcard allow with denied names": ("allow User:alice WRITE *,deny User:* WRITE o...", True),
    "a denied literal": ("allow User:alice WRITE orders,deny User:alice WRITE orders", False),
    "another denied literal": ("allow User:alice WRITE orders,deny User:alice WRITE bills", True),
    "a literal under a denied prefix": ("allow User:alice WRITE orders,deny User:alice WRITE ord...", False),
    "a literal that is a denied prefix": ("allow User:alice WRITE orders,deny User:alice WRITE orders...", False),
    "a prefix with a denied literal": ("allow User:alice WRITE orders...,deny User:alice WRITE orders", True),
    "a denied prefix": ("allow User:alice WRITE orders...,deny User:alice WRITE orders...", False),
    "a prefix under a denied prefix": ("allow User:alice WRITE orders...,deny User:alice WRITE ord...", False),
    "a prefix over a denied prefix": ("allow User:alice WRITE ord...,deny User:alice WRITE orders...", True),
    "one of two is left": (
        "allow User:alice WRITE ord...,allow User:alice WRITE bills,deny User:alice WRITE o...",
        True,
    ),
    "a deny for another principal": ("allow User:alice WRITE orders,deny User:bob WRITE orders", True),
}


@pytest.mark.parametrize(("bindings", "expected"), BY_TYPE.values(), ids=BY_TYPE)
def test_decision_by_resource_type(bindings: str, expected: bool) -> None:
    authorizer = Authorizer(acls(bindings))
    assert authorizer.authorize_by_resource_type("User:alice", HOST, Operation.WRITE, Resource.TOPIC) is expected


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ("", True),
        ("deny User:alice WRITE o...", True),
        ("deny User:alice WRITE h...", True),  # Kafka: False, because it looks at the topic "hardcode"
        ("allow User:bob READ *", False),
        ("allow User:bob READ *,allow User:alice WRITE orders", True),
        ("deny User:alice WRITE *", False),
    ],
)
def test_decision_by_resource_type_where_everyone_is_allowed_without_an_acl(bindings: str, expected: bool) -> None:
    authorizer = Authorizer(acls(bindings), allow_everyone_if_no_acl_found=True)
    assert authorizer.authorize_by_resource_type("User:alice", HOST, Operation.WRITE, Resource.TOPIC) is expected


@pytest.mark.parametrize(("name", "expected"), [("*", True), ("orders", False), ("h...", False)])
def test_by_resource_type_only_a_wildcard_implies_operations(name: str, expected: bool) -> None:
    """For the prefix `h` Kafka answers True, because it looks at the topic "hardcode"."""
    authorizer = Authorizer([acl(f"allow User:alice READ {name}")])
    assert authorizer.authorize_by_resource_type("User:alice", HOST, Operation.DESCRIBE, Resource.TOPIC) is expected


@pytest.mark.parametrize(("operation", "resource"), [(Operation.ANY, Resource.TOPIC), (Operation.WRITE, Resource.ANY)])
def test_filter_values_have_no_decision_by_resource_type(operation: Operation, resource: Resource) -> None:
    with pytest.raises(InvariantError, match="ANY is for filters"):
        Authorizer().authorize_by_resource_type("User:alice", HOST, operation, resource)
