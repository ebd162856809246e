"""Which bindings a broker accepts, which can never take effect, and the codes of the protocol."""

import pytest

from tailrace.machines.authorization.binding import AclBinding, ineffective_reason, invalid_reason
from tailrace.machines.authorization.host import canonical_host
from tailrace.machines.authorization.principal import parse_super_users
from tailrace.machines.authorization.vocabulary import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    PatternType,
    Permission,
    Resource,
)

VALID = AclBinding(Resource.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)

INVALID: list[tuple[AclBinding, str]] = [
    (VALID._replace(resource=Resource.ANY), "specific resource type, not ANY"),
    (VALID._replace(resource=Resource(99)), "specific resource type, not UNKNOWN"),
    (VALID._replace(pattern_type=PatternType.MATCH), "LITERAL or PREFIXED, not MATCH"),
    (VALID._replace(pattern_type=PatternType.ANY), "LITERAL or PREFIXED, not ANY"),
    (VALID._replace(pattern_type=PatternType.UNKNOWN), "LITERAL or PREFIXED, not UNKNOWN"),
    (VALID._replace(operation=Operation.ANY), "a specific operation or ALL, not ANY"),
    (VALID._replace(operation=Operation.UNKNOWN), "a specific operation or ALL, not UNKNOWN"),
    (VALID._replace(permission=Permission.ANY), "DENY or ALLOW, not ANY"),
    (VALID._replace(permission=Permission.UNKNOWN), "DENY or ALLOW, not UNKNOWN"),
    (VALID._replace(name=""), "must not be empty"),
    (VALID._replace(resource=Resource.CLUSTER), '"kafka-cluster", not "orders"'),
    (VALID._replace(resource=Resource.CLUSTER, name="*"), '"kafka-cluster", not "*"'),
    (VALID._replace(principal="alice"), 'TYPE:NAME, such as "User:alice", not "alice"'),
    (VALID._replace(principal=""), 'TYPE:NAME, such as "User:alice", not ""'),
]
INEFFECTIVE: list[tuple[AclBinding, str]] = [
    (VALID._replace(operation=Operation.CLUSTER_ACTION), "TOPIC has no operation CLUSTER_ACTION; it has READ, WRITE"),
    (VALID._replace(resource=Resource.GROUP, operation=Operation.WRITE), "GROUP has no operation WRITE"),
    (VALID._replace(host="broker1.example.com"), 'an IP address or "*", not "broker1.example.com"'),
    (VALID._replace(host=""), 'an IP address or "*", not ""'),
    (VALID._replace(host="10.0.0.0/8"), "names are not resolved"),
    (VALID._replace(principal="User:"), '"User:" has no name'),
    (VALID._replace(principal=":alice"), '":alice" has no type'),
    (VALID._replace(name="*", pattern_type=PatternType.PREFIXED), 'use LITERAL "*"'),
]
EFFECTIVE: list[AclBinding] = [
    VALID,
    VALID._replace(name="*"),
    VALID._replace(pattern_type=PatternType.PREFIXED),
    VALID._replace(operation=Operation.ALL, permission=Permission.DENY),
    VALID._replace(principal="User:CN=alice,OU=a:b"),
    VALID._replace(principal="User:*", host="10.0.0.1"),
    VALID._replace(host="fe80::1"),
    VALID._replace(resource=Resource.CLUSTER, name=CLUSTER_NAME, operation=Operation.ALTER),
    VALID._replace(
        resource=Resource.CLUSTER,
        name=CLUSTER_NAME,
        pattern_type=PatternType.PREFIXED,
        operation=Operation.ALTER,
    ),
    VALID._replace(resource=Resource.TRANSACTIONAL_ID, operation=Operation.TWO_PHASE_COMMIT),
    VALID._replace(resource=Resource.GROUP, name="*g", pattern_type=PatternType.PREFIXED),
    VALID._replace(resource=Resource.USER, name="User:bob", operation=Operation.CREATE_TOKENS),
]


@pytest.mark.parametrize(("binding", "reason"), INVALID)
def test_a_broker_rejects(binding: AclBinding, reason: str) -> None:
    assert reason in str(invalid_reason(binding))


@pytest.mark.parametrize(("binding", "reason"), INEFFECTIVE)
def test_a_broker_stores_bindings_that_never_take_effect(binding: AclBinding, reason: str) -> None:
    assert invalid_reason(binding) is None
    assert reason in str(ineffective_reason(binding))


@pytest.mark.parametrize("binding", EFFECTIVE)
def test_valid_bindings(binding: AclBinding) -> None:
    assert invalid_reason(binding) is None
    assert ineffective_reason(binding) is None


def test_supported_operations_are_those_of_kafka() -> None:
    """The codes are those that AclEntry.supportedOperations of Kafka 4.3.1 returns."""
    assert {int(resource): sorted(map(int, found)) for resource, found in SUPPORTED_OPERATIONS.items()} == {
        2: [3, 4, 5, 6, 7, 8, 10, 11],
        3: [3, 6, 8, 10, 11],
        4: [5, 7, 8, 9, 10, 11, 12],
        5: [4, 8, 15],
        6: [8],
        7: [13, 14],
    }


def test_codes_are_those_of_kafka() -> None:
    assert [resource.name for resource in Resource] == [
        *("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
    ]
    assert [pattern_type.name for pattern_type in PatternType] == ["UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"]
    assert [permission.name for permission in Permission] == ["UNKNOWN", "ANY", "DENY", "ALLOW"]
    assert Operation(15) is Operation.TWO_PHASE_COMMIT
    assert all(list(codes) == list(range(len(codes))) for codes in (Resource, PatternType, Permission, Operation))


@pytest.mark.parametrize("codes", [Resource, PatternType, Permission, Operation])
def test_a_code_of_a_later_version_is_unknown(
    codes: type[Resource] | type[PatternType] | type[Permission] | type[Operation],
) -> None:
    assert codes(100) is codes.UNKNOWN
    assert codes(-1) is codes.UNKNOWN


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1", "fe80::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("*", "*"),
        ("broker1", "broker1"),
        ("", ""),
    ],
)
def test_canonical_hosts(host: str, expected: str) -> None:
    assert canonical_host(host) == expected


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users("User:CN=a,O=b; User:bob ;;") == {"User:CN=a,O=b", "User:bob"}
    assert parse_super_users("") == frozenset()


def test_a_super_user_needs_a_type() -> None:
    with pytest.raises(ValueError, match=r'super\.users: "bob" does not have the form TYPE:NAME, such as "User:bob"'):
        parse_super_users("User:alice;bob")
