"""The authorizer answers as a model that reads all bindings, whatever was added and removed before."""

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.machines.authorization.naive import NaiveAuthorizer

from tailrace.machines.authorization.authorizer import Authorizer
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource

NAMES = ["a", "ab", "abc", "b", "*", "*a"]
PRINCIPALS = ["User:a", "User:b", "Group:a"]
HOSTS = ["10.0.0.1", "10.0.0.2", "::1", "0:0:0:0:0:0:0:1"]
RESOURCES = [Resource.TOPIC, Resource.GROUP]
OPERATIONS = [
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
]
PATTERN_TYPES = [PatternType.LITERAL, PatternType.PREFIXED]
FILTER_TYPES = [PatternType.ANY, PatternType.MATCH, *PATTERN_TYPES]

Change = tuple[bool, list[AclBinding]]
"""Bindings that are added, or removed."""


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    """Draw changes whose bindings have few different values, so that many concern the same resource and client."""

    def some(values: list[Any], count_max: int) -> st.SearchStrategy[Any]:
        return st.sampled_from(draw(st.lists(st.sampled_from(values), min_size=1, max_size=count_max, unique=True)))

    bindings = st.builds(
        AclBinding,
        some(RESOURCES, 2),
        some(NAMES, 3),
        st.sampled_from(PATTERN_TYPES),
        some([*PRINCIPALS, "User:*"], 2),
        some([*HOSTS, "*"], 2),
        some([*OPERATIONS, Operation.ALL], 2),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    )
    first = draw(st.lists(bindings, min_size=2, max_size=14))
    return [(True, first), *draw(st.lists(st.tuples(st.booleans(), st.lists(bindings, max_size=4)), max_size=2))]


filters = st.builds(
    AclFilter,
    st.sampled_from([Resource.ANY, *RESOURCES]),
    st.sampled_from([None, *NAMES]),
    st.sampled_from(FILTER_TYPES),
    st.sampled_from([None, None, None, *PRINCIPALS, "User:*"]),
    st.sampled_from([None, None, None, "10.0.0.1", "::1", "*"]),
    st.sampled_from([Operation.ANY] * 5 + [Operation.ALL, *OPERATIONS]),
    st.sampled_from([Permission.ANY, Permission.ALLOW, Permission.DENY]),
)


def build(steps: list[Change], allow_everyone: bool) -> tuple[Authorizer, NaiveAuthorizer]:
    """Apply the changes to an authorizer and to a set; a removal names bindings that are there and others."""
    supers = frozenset({"User:b"}) if len(steps) == 1 else frozenset[str]()
    authorizer = Authorizer(super_users=supers, allow_everyone_if_no_acl_found=allow_everyone)
    present: set[AclBinding] = set()
    for is_added, group in steps:
        for binding in group if is_added else [*group, *sorted(present)[::2]]:
            if is_added:
                assert authorizer.add(binding) is (binding not in present)
                present.add(binding)
            else:
                assert authorizer.remove(binding) is (binding in present)
                present.discard(binding)
    assert len(authorizer) == len(present)
    return authorizer, NaiveAuthorizer(present, supers, allow_everyone)


@given(changes(), st.booleans(), st.sampled_from(HOSTS), st.sampled_from(RESOURCES))
def test_decisions(steps: list[Change], allow_everyone: bool, host: str, resource: Resource) -> None:
    authorizer, naive = build(steps, allow_everyone)
    strict = NaiveAuthorizer(naive.bindings, naive.super_users, False)
    for principal in PRINCIPALS:
        for operation in [*OPERATIONS, Operation.ALL]:
            by_type = authorizer.authorize_by_resource_type(principal, host, operation, resource)
            assert by_type == naive.authorize_by_resource_type(principal, host, operation, resource)
            for name in [*NAMES, "c", "abcd"]:
                allowed = authorizer.authorize(principal, host, operation, resource, name)
                assert allowed == naive.authorize(principal, host, operation, resource, name)
                granted = authorizer.is_granted(principal, host, operation, resource, name)
                assert granted == strict.authorize(principal, host, operation, resource, name)


@given(changes(), st.lists(filters, min_size=1, max_size=8))
def test_selections(steps: list[Change], selections: list[AclFilter]) -> None:
    _, naive = build(steps, False)
    by_name = [AclFilter(Resource.ANY, *pattern) for pattern in product([None, *NAMES], FILTER_TYPES)]
    for selection in [*selections, *by_name]:
        assert {binding for binding in naive.bindings if selection.matches(binding)} == naive.select(selection)


@given(changes())
def test_removing_everything_leaves_nothing_behind(steps: list[Change]) -> None:
    authorizer, naive = build(steps, True)
    for binding in naive.bindings:
        authorizer.remove(binding)
    assert len(authorizer) == 0
    assert all(
        authorizer.authorize("User:a", "10.0.0.1", Operation.READ, resource, name)
        for resource in RESOURCES
        for name in NAMES
    )
