"""The server-side assignors: every partition has one owner, shares are fair, and little moves."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.machines.group.assignor.assignor import Assignment, Assignor, GroupSpec, MemberSpec
from tailrace.machines.group.assignor.range import assign_range
from tailrace.machines.group.assignor.uniform import assign_uniform

FOO, BAR, ZAR = UUID(int=1), UUID(int=2), UUID(int=3)
ASSIGNORS = pytest.mark.parametrize("assignor", [assign_range, assign_uniform])


def member(*topics: UUID, has: Mapping[UUID, set[int]] | None = None, instance: str | None = None) -> MemberSpec:
    assigned = {topic: frozenset(parts) for topic, parts in (has or {}).items()}
    return MemberSpec(frozenset(topics), assigned, instance)


def plain(assigned: Mapping[str, Assignment]) -> dict[str, dict[UUID, set[int]]]:
    return {name: {topic: set(parts) for topic, parts in topics.items()} for name, topics in assigned.items()}


def test_range_cuts_each_topic_in_the_order_of_the_members() -> None:
    group = GroupSpec({"b": member(FOO, BAR), "a": member(FOO, BAR)}, {FOO: 3, BAR: 3})
    assert plain(assign_range(group)) == {"a": {FOO: {0, 1}, BAR: {0, 1}}, "b": {FOO: {2}, BAR: {2}}}


def test_range_puts_static_members_first_by_their_instance_id() -> None:
    members = {"a": member(FOO), "z": member(FOO, instance="2"), "m": member(FOO, instance="1")}
    assert plain(assign_range(GroupSpec(members, {FOO: 5}))) == {
        "m": {FOO: {0, 1}},
        "z": {FOO: {2, 3}},
        "a": {FOO: {4}},
    }


def test_range_counts_only_the_subscribers_of_a_topic() -> None:
    group = GroupSpec({"a": member(FOO), "b": member(FOO, BAR), "c": member(BAR)}, {FOO: 3, BAR: 2})
    assert plain(assign_range(group)) == {"a": {FOO: {0, 1}}, "b": {FOO: {2}, BAR: {0}}, "c": {BAR: {1}}}


def test_range_leaves_members_idle_when_there_are_more_than_partitions() -> None:
    group = GroupSpec({"a": member(FOO), "b": member(FOO)}, {FOO: 1})
    assert plain(assign_range(group)) == {"a": {FOO: {0}}, "b": {}}


def test_uniform_moves_one_partition_to_a_third_member() -> None:
    members = {"a": member(FOO, has={FOO: {0, 1}}), "b": member(FOO, has={FOO: {2, 3}}), "c": member(FOO)}
    expected = {"a": {FOO: {0, 1}}, "b": {FOO: {2}}, "c": {FOO: {3}}}
    assert plain(assign_uniform(GroupSpec(members, {FOO: 4}))) == expected


def test_uniform_gives_what_a_member_left_behind_to_those_with_least() -> None:
    members = {"a": member(FOO, has={FOO: {0}}), "b": member(FOO, has={FOO: {4, 5}})}
    assert plain(assign_uniform(GroupSpec(members, {FOO: 6}))) == {"a": {FOO: {0, 1, 2}}, "b": {FOO: {3, 4, 5}}}


def test_uniform_forgets_partitions_of_topics_nobody_is_subscribed_to() -> None:
    members = {"a": member(FOO, has={FOO: {0}, BAR: {0, 1}}), "b": member(FOO, has={FOO: {1}})}
    assert plain(assign_uniform(GroupSpec(members, {FOO: 2}))) == {"a": {FOO: {0}}, "b": {FOO: {1}}}


def test_uniform_balances_members_with_different_subscriptions() -> None:
    group = GroupSpec({"a": member(FOO), "b": member(FOO, BAR), "c": member(BAR)}, {FOO: 2, BAR: 4})
    assert plain(assign_uniform(group)) == {"a": {FOO: {0, 1}}, "b": {BAR: {0, 2}}, "c": {BAR: {1, 3}}}


def test_uniform_takes_from_a_member_that_has_too_much_when_subscriptions_differ() -> None:
    members = {"a": member(FOO, has={FOO: {0, 1, 2, 3}}), "b": member(FOO, BAR, has={BAR: {0}}), "c": member(BAR)}
    expected = {"a": {FOO: {0, 1}}, "b": {FOO: {2, 3}}, "c": {BAR: {0}}}
    assert plain(assign_uniform(GroupSpec(members, {FOO: 4, BAR: 1}))) == expected


@ASSIGNORS
def test_a_group_without_members_or_topics_gets_nothing(assignor: Assignor) -> None:
    assert assignor(GroupSpec({}, {})) == {}
    assert plain(assignor(GroupSpec({"a": member()}, {}))) == {"a": {}}


# Properties over made-up groups.

TOPICS = [UUID(int=number) for number in range(1, 4)]
SUBSCRIPTION = st.frozensets(st.sampled_from(TOPICS), max_size=3)


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    """Members with any subscriptions and a previous target in which every partition has one owner at most."""
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6))
    counts = {topic: draw(st.integers(1, 5)) for topic in TOPICS}
    same = draw(st.booleans())
    topics = draw(SUBSCRIPTION)
    has: dict[str, dict[UUID, set[int]]] = {name: {} for name in names}
    for topic, count in counts.items():
        for index in range(count):
            owner = draw(st.sampled_from([*names, None]))
            if owner is not None:
                has[owner].setdefault(topic, set()).add(index)
    members = {
        name: member(
            *(topics if same else draw(SUBSCRIPTION)),
            has=has[name],
            instance=draw(st.sampled_from([None, f"i-{name}"])),
        )
        for name in names
    }
    return GroupSpec(members, counts)


def check_owned_once(group: GroupSpec, assigned: Mapping[str, Assignment]) -> None:
    owners = Counter(
        (topic, index) for topics in assigned.values() for topic, parts in topics.items() for index in parts
    )
    subscribed = {topic for spec in group.members.values() for topic in spec.topics}
    assert owners == {(topic, index): 1 for topic in subscribed for index in range(group.partition_counts[topic])}
    for name, topics in assigned.items():
        assert topics.keys() <= group.members[name].topics
        assert all(topics.values()), "a topic without partitions is left out"


@ASSIGNORS
@given(group=groups())
@settings(max_examples=50, deadline=None)
def test_every_partition_has_exactly_one_owner_that_is_subscribed(assignor: Assignor, group: GroupSpec) -> None:
    assigned = assignor(group)
    assert assigned.keys() == group.members.keys()
    check_owned_once(group, assigned)


@given(group=groups())
@settings(max_examples=50, deadline=None)
def test_range_co_partitions_topics_with_the_same_subscribers_and_count(group: GroupSpec) -> None:
    first, second = TOPICS[:2]
    alike = {name: member(first, second, instance=spec.instance_id) for name, spec in group.members.items()}
    for given_topics in assign_range(GroupSpec(alike, {first: 7, second: 7})).values():
        assert given_topics.get(first) == given_topics.get(second)


def load(given_topics: Assignment) -> int:
    return sum(map(len, given_topics.values()))


@given(group=groups())
@settings(max_examples=50, deadline=None)
def test_uniform_shares_differ_by_one_at_most_among_the_subscribers_of_a_topic(group: GroupSpec) -> None:
    assigned = assign_uniform(group)
    for topic in TOPICS:
        subscribers = [name for name, spec in group.members.items() if topic in spec.topics]
        owners = [load(assigned[name]) for name in subscribers if topic in assigned[name]]
        assert not owners or max(owners) - min(load(assigned[name]) for name in subscribers) <= 1


@given(group=groups())
@settings(max_examples=50, deadline=None)
def test_uniform_moves_nothing_when_asked_again(group: GroupSpec) -> None:
    assigned = assign_uniform(group)
    again = {name: MemberSpec(spec.topics, assigned[name]) for name, spec in group.members.items()}
    assert assign_uniform(GroupSpec(again, group.partition_counts)) == assigned


@given(group=groups())
@settings(max_examples=50, deadline=None)
def test_uniform_takes_no_more_than_the_newcomers_need(group: GroupSpec) -> None:
    """With equal subscriptions, whoever had no more than the smaller share keeps all of it."""
    if not group.homogeneous or not group.members:
        return
    topics = next(iter(group.members.values())).topics
    quota = sum(group.partition_counts[topic] for topic in topics) // len(group.members)
    assigned = assign_uniform(group)
    for name, spec in group.members.items():
        had = {(topic, index) for topic, parts in spec.assigned.items() if topic in topics for index in parts}
        has = {(topic, index) for topic, parts in assigned[name].items() for index in parts}
        assert len(had & has) >= min(len(had), quota)
