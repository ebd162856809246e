"""The bindings that filters select."""

import pytest

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter, invalid_filter_reason
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource

ANY, MATCH, LITERAL, PREFIXED = PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED


def binding(name: str, pattern_type: PatternType) -> AclBinding:
    return AclBinding(Resource.TOPIC, name, pattern_type, "User:alice", "*", Operation.READ, Permission.ALLOW)


ALL = [
    binding("orders", LITERAL),
    binding("orders", PREFIXED),
    binding("ord", LITERAL),
    binding("ord", PREFIXED),
    binding("*", LITERAL),
    binding("*", PREFIXED),
]


@pytest.mark.parametrize(
    ("name", "pattern_type", "expected"),
    [
        (None, ANY, ALL),
        (None, MATCH, ALL),
        (None, LITERAL, [ALL[0], ALL[2], ALL[4]]),
        (None, PREFIXED, [ALL[1], ALL[3], ALL[5]]),
        ("orders", ANY, [ALL[0], ALL[1]]),
        ("orders", LITERAL, [ALL[0]]),
        ("orders", PREFIXED, [ALL[1]]),
        ("orders", MATCH, [ALL[0], ALL[1], ALL[3], ALL[4]]),
        ("ord", MATCH, [ALL[2], ALL[3], ALL[4]]),
        ("bills", MATCH, [ALL[4]]),
        ("*", ANY, [ALL[4], ALL[5]]),
        ("*", LITERAL, [ALL[4]]),
        ("*", MATCH, [ALL[4], ALL[5]]),
        ("", MATCH, [ALL[4]]),
        ("", ANY, []),
    ],
)
def test_names(name: str | None, pattern_type: PatternType, expected: list[AclBinding]) -> None:
    selection = AclFilter(Resource.TOPIC, name, pattern_type)
    assert [found for found in ALL if selection.matches(found)] == expected


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (AclFilter(), True),
        (AclFilter(resource=Resource.TOPIC), True),
        (AclFilter(resource=Resource.GROUP), False),
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=Operation.READ), True),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(operation=Operation.DESCRIBE), False),
        (AclFilter(permission=Permission.ALLOW), True),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_other_fields_are_compared_as_values(selection: AclFilter, expected: bool) -> None:
    assert selection.matches(ALL[0]) is expected


def test_a_filter_with_unknown_fields_is_invalid() -> None:
    assert invalid_filter_reason(AclFilter()) is None
    assert invalid_filter_reason(AclFilter(pattern_type=MATCH)) is None
    reason = invalid_filter_reason(AclFilter(resource=Resource(77)))
    assert reason == "The resource type of the ACL filter is unknown"
