"""Assignors: cases worked out with Kafka's rules, and what must hold for any group."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.address import Address
from tailrace.client.group.assignor.assignor import Assigned, Assignor, Claim, Member
from tailrace.client.group.assignor.range import RangeAssignor
from tailrace.client.group.assignor.round_robin import RoundRobinAssignor
from tailrace.client.group.assignor.sticky import CooperativeStickyAssignor, StickyAssignor, assign_sticky
from tailrace.client.group.classic_message import Lead
from tailrace.client.metadata import EMPTY_VIEW, Node, Partition, Topic
from tailrace.protocol.consumer_protocol import ConsumerProtocolSubscription, decode_assignment, encode_versioned
from tailrace.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember
from tailrace.protocol.primitive import ZERO_UUID

ALL: list[Assignor] = [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]


def member(member_id: str, *topics: str, instance: str | None = None) -> Member:
    return Member(member_id, frozenset(topics), instance)


def spans(**assigned: str) -> Assigned:
    """`m="t1:0,1 t2:2"` as an assignment."""
    return {
        member_id: [
            (topic, int(number))
            for part in text.split()
            for topic, numbers in [part.split(":")]
            for number in numbers.split(",")
        ]
        for member_id, text in assigned.items()
    }


RANGE_CASES = {
    "one takes all": ([member("c1", "t")], {"t": 3}, spans(c1="t:0,1,2")),
    "an absent topic": ([member("c1", "t")], {}, spans(c1="")),
    "more members than partitions": ([member("c1", "t"), member("c2", "t")], {"t": 1}, spans(c1="t:0", c2="")),
    "only what is wanted": ([member("c1", "t")], {"t": 3, "other": 3}, spans(c1="t:0,1,2")),
    "each topic by itself": (
        [member("c1", "t1", "t2"), member("c2", "t1", "t2")],
        {"t1": 3, "t2": 3},
        spans(c1="t1:0,1 t2:0,1", c2="t1:2 t2:2"),
    ),
    "different wishes": (
        [member("c1", "t1"), member("c2", "t1", "t2"), member("c3", "t1")],
        {"t1": 3, "t2": 2},
        spans(c1="t1:0", c2="t1:1 t2:0,1", c3="t1:2"),
    ),
    "static members first, by their names": (
        [member("c1", "t"), member("c2", "t", instance="z"), member("c3", "t", instance="a")],
        {"t": 4},
        spans(c3="t:0,1", c2="t:2", c1="t:3"),
    ),
}

ROUND_ROBIN_CASES = {
    "one takes all": ([member("c1", "t1", "t2")], {"t1": 1, "t2": 2}, spans(c1="t1:0 t2:0,1")),
    "more members than partitions": ([member("c1", "t"), member("c2", "t")], {"t": 1}, spans(c1="t:0", c2="")),
    "over the bounds of topics": (
        [member("c1", "t1", "t2"), member("c2", "t1", "t2")],
        {"t1": 3, "t2": 3},
        spans(c1="t1:0,2 t2:1", c2="t1:1 t2:0,2"),
    ),
    "passing over who does not want": (
        [member("c1", "t1"), member("c2", "t1", "t2"), member("c3", "t1")],
        {"t1": 3, "t2": 2},
        spans(c1="t1:0", c2="t1:1 t2:0,1", c3="t1:2"),
    ),
    "static members first": (
        [member("c1", "t"), member("c2", "t", instance="z")],
        {"t": 3},
        spans(c2="t:0,2", c1="t:1"),
    ),
}


@pytest.mark.parametrize("case", RANGE_CASES)
def test_range_divides_as_kafka_does(case: str) -> None:
    members, counts, expected = RANGE_CASES[case]
    assert RangeAssignor().assign(members, counts) == expected


@pytest.mark.parametrize("case", ROUND_ROBIN_CASES)
def test_round_robin_divides_as_kafka_does(case: str) -> None:
    members, counts, expected = ROUND_ROBIN_CASES[case]
    assert RoundRobinAssignor().assign(members, counts) == expected


ANSWERS = json.loads(Path(__file__).with_name("assignor_answers.json").read_text())


def test_range_and_round_robin_divide_random_groups_as_kafkas_client_does() -> None:
    """The answers are those of the assignors of Kafka 4.3.1; AssignorAnswers.java asks for them."""
    by_name = {assignor.name: assignor for assignor in ALL}
    assert len(ANSWERS) == 120
    for case in ANSWERS:
        members = [
            Member(member_id, frozenset(one["topics"]), one["instance"]) for member_id, one in case["members"].items()
        ]
        assigned = by_name[case["assignor"]].assign(members, case["counts"])
        assert {member_id: [list(target) for target in targets] for member_id, targets in assigned.items()} == {
            member_id: one["gets"] for member_id, one in case["members"].items()
        }


RACK_ANSWERS = json.loads(Path(__file__).with_name("rack_answers.json").read_text())


def test_range_looks_at_racks_as_kafkas_client_does() -> None:
    """The answers are those of Kafka 4.3.1; RackAnswers.java asks for them."""
    assert len(RACK_ANSWERS) == 80
    different = 0
    for case in RACK_ANSWERS:
        members = [
            Member(member_id, frozenset(one["topics"]), rack_id=one["rack"])
            for member_id, one in case["members"].items()
        ]
        counts = {topic: len(places) for topic, places in case["racks"].items()}
        racks = {
            (topic, index): frozenset(place)
            for topic, places in case["racks"].items()
            for index, place in enumerate(places)
        }
        assigned = RangeAssignor().assign(members, counts, racks)
        assert {member_id: [list(target) for target in targets] for member_id, targets in assigned.items()} == {
            member_id: one["gets"] for member_id, one in case["members"].items()
        }
        different += assigned != RangeAssignor().assign(members, counts)
    assert different > 20, "racks made no difference"


def near_and_far(racks: dict[tuple[str, int], frozenset[str]], members: list[Member], assigned: Assigned) -> int:
    """How many partitions went to a member in one of their racks."""
    where = {member.member_id: member.rack_id for member in members}
    return sum(where[member_id] in racks[target] for member_id, targets in assigned.items() for target in targets)


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()], ids=lambda found: found.name)
def test_sticky_gives_out_what_is_nearby_and_moves_nothing_for_it(assignor: Assignor) -> None:
    racks = {("t", index): frozenset({"ab"[index % 2]}) for index in range(6)}
    members = [Member(name, frozenset({"t"}), rack_id=rack) for name, rack in (("m1", "b"), ("m2", "a"))]
    assert assignor.assign(members, {"t": 6}, racks) == spans(m1="t:1,3,5", m2="t:0,2,4")
    owning = [replace(members[0], owned=(("t", 0), ("t", 1), ("t", 2)), generation_id=1), members[1]]
    assert assignor.assign(owning, {"t": 6}, racks) == spans(m1="t:0,1,2", m2="t:3,4,5")
    wishes = [replace(members[0], topics=frozenset({"t", "u"})), members[1]]
    different = assignor.assign(wishes, {"t": 6, "u": 0}, racks)
    assert near_and_far(racks, members, different) >= 4


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6),
    st.lists(st.frozensets(st.sampled_from("abcd"), max_size=2), max_size=12),
)
def test_racks_cost_no_balance(member_racks: list[str | None], places: list[frozenset[str]]) -> None:
    racks = {("t", index): place for index, place in enumerate(places)}
    members = [Member(f"m{number}", frozenset({"t"}), rack_id=rack) for number, rack in enumerate(member_racks)]
    for assignor in ALL:
        assigned = assignor.assign(members, {"t": len(places)}, racks)
        assert gather(assigned) == sorted(racks)
        sizes = [len(targets) for targets in assigned.values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_leader_knows_where_members_and_replicas_are() -> None:
    nodes = {1: Node(1, Address("h", 1), "east"), 2: Node(2, Address("h", 2), "west"), 3: Node(3, Address("h", 3))}
    partitions = tuple(Partition(index, 1, 0, replicas, ()) for index, replicas in enumerate([(1, 3), (2,), (2, 9)]))
    view = replace(EMPTY_VIEW, nodes=nodes, topics={"t": Topic("t", ZERO_UUID, False, partitions)})
    racks = view.racks(["t", "absent"])
    assert racks == {("t", 0): {"east"}, ("t", 1): {"west"}, ("t", 2): {"west"}}
    subscriptions = {
        member_id: encode_versioned(ConsumerProtocolSubscription(topics=["t"], rack_id=rack))
        for member_id, rack in (("m1", "west"), ("m2", "east"))
    }
    members = [JoinGroupResponseMember(member_id=name, metadata=data) for name, data in subscriptions.items()]
    for assignor in (RangeAssignor(), StickyAssignor(), CooperativeStickyAssignor()):
        lead = Lead(JoinGroupResponse(protocol_name=assignor.name, members=members), [assignor])
        found = {name: decode_assignment(data) for name, data in lead.assign({"t": 3}, racks).items()}
        assert found == {"m1": [("t", 1), ("t", 2)], "m2": [("t", 0)]}


TOPICS = ["a", "b", "c", "d"]
counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
wishes = st.lists(st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=6)


def gather(assigned: Mapping[str, list[tuple[str, int]]]) -> list[tuple[str, int]]:
    return sorted(target for targets in assigned.values() for target in targets)


def wanted(members: list[Member], counts: Mapping[str, int]) -> list[tuple[str, int]]:
    topics = frozenset[str]().union(*(member.topics for member in members))
    return sorted((topic, number) for topic in topics for number in range(counts.get(topic, 0)))


@pytest.mark.parametrize("assignor", ALL, ids=lambda assignor: assignor.name)
@given(counts=counts_of_topics, wishes=wishes)
def test_every_wanted_partition_goes_to_one_who_wants_it(
    assignor: Assignor, counts: dict[str, int], wishes: list[frozenset[str]]
) -> None:
    members = [Member(f"m{number}", topics) for number, topics in enumerate(wishes)]
    assigned = assignor.assign(members, counts)
    assert gather(assigned) == wanted(members, counts)
    for one in members:
        assert {topic for topic, _ in assigned[one.member_id]} <= one.topics


def is_balanced(members: list[Member], assigned: Assigned) -> bool:
    """Nobody has two more than another who could take one of them."""
    for one, other in combinations(members, 2):
        for giver, taker in ((one, other), (other, one)):
            mine, theirs = assigned[giver.member_id], assigned[taker.member_id]
            if len(mine) - len(theirs) >= 2 and any(topic in taker.topics for topic, _ in mine):
                return False
    return True


def after(members: list[Member], assigned: Assigned, generation_id: int) -> list[Member]:
    return [
        Member(one.member_id, one.topics, None, tuple(assigned.get(one.member_id, ())), generation_id)
        for one in members
    ]


@given(counts=counts_of_topics, wishes=wishes, joining=wishes, leaving=st.integers(0, 5))
def test_sticky_stays_balanced_as_members_come_and_go(
    counts: dict[str, int], wishes: list[frozenset[str]], joining: list[frozenset[str]], leaving: int
) -> None:
    members = [Member(f"m{number}", topics) for number, topics in enumerate(wishes)]
    assigned = assign_sticky(members, counts)
    assert is_balanced(members, assigned)
    members = after(members, assigned, 1)
    assert assign_sticky(members, counts) == assigned  # nothing changed, so nothing moves
    members = members[min(leaving, len(members) - 1) :]
    members += [Member(f"n{number}", topics) for number, topics in enumerate(joining)]
    assigned = assign_sticky(members, counts)
    assert is_balanced(members, assigned)
    assert gather(assigned) == wanted(members, counts)


@given(count=st.integers(0, 40), size=st.integers(1, 8), leaving=st.integers(1, 7))
def test_only_what_a_leaver_had_moves_among_equals(count: int, size: int, leaving: int) -> None:
    members = [Member(f"m{number}", frozenset("a")) for number in range(size)]
    assigned = assign_sticky(members, {"a": count})
    stayers = after(members, assigned, 1)[min(leaving, size - 1) :]
    again = assign_sticky(stayers, {"a": count})
    for one in stayers:
        assert set(assigned[one.member_id]) <= set(again[one.member_id])


def test_a_newcomer_gets_no_more_than_its_share() -> None:
    members = [member("c1", "t"), member("c2", "t")]
    first = assign_sticky(members, {"t": 6})
    again = assign_sticky([*after(members, first, 1), member("c0", "t")], {"t": 6})
    assert {name: len(targets) for name, targets in again.items()} == {"c0": 2, "c1": 2, "c2": 2}
    assert set(again["c1"]) < set(first["c1"])
    assert set(again["c2"]) < set(first["c2"])


def test_of_two_claims_the_younger_counts_and_of_equal_ones_none() -> None:
    old = Member("old", frozenset("t"), None, (("t", 0), ("t", 1)), 4)
    new = Member("new", frozenset("t"), None, (("t", 0), ("t", 1)), 5)
    third = Member("third", frozenset("t"), None, (("t", 2),), 5)
    assert assign_sticky([old, new, third], {"t": 6})["new"][:2] == [("t", 0), ("t", 1)]
    rival = Member("rival", frozenset("t"), None, (("t", 2), ("t", 3)), 5)
    assigned = assign_sticky([third, rival], {"t": 4})
    assert ("t", 3) in assigned["rival"]
    assert gather(assigned) == [("t", number) for number in range(4)]


def test_cooperative_gives_nobody_what_another_still_has() -> None:
    assignor = CooperativeStickyAssignor()
    both = [Member("c1", frozenset("t"), None, (("t", 0), ("t", 1), ("t", 2), ("t", 3)), 1), member("c2", "t")]
    first = assignor.assign(both, {"t": 4})
    assert first == spans(c1="t:0,1", c2="")
    second = assignor.assign(after(both, first, 2), {"t": 4})
    assert second == spans(c1="t:0,1", c2="t:2,3")


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()], ids=lambda found: found.name)
def test_what_a_member_has_travels_to_the_leader(assignor: Assignor) -> None:
    owned = (("t", 0), ("t", 2), ("u", 1))
    data = assignor.user_data(owned, 7)
    if assignor.is_cooperative:
        assert data == b"\0\0\0\7"
        claim = Claim(data, owned)
    else:
        assert data == b"\0\0\0\2\0\1t\0\0\0\2\0\0\0\0\0\0\0\2\0\1u\0\0\0\1\0\0\0\1\0\0\0\7"
        claim = Claim(data)
    assert assignor.read_member("m", None, frozenset("tu"), claim) == Member("m", frozenset("tu"), None, owned, 7)
    assert assignor.read_member("m", "i", frozenset("t"), Claim(b"\xff")) == Member("m", frozenset("t"), "i")
