"""The table of the states of a classic group, cell by cell."""

import pytest
from tests.unit.machines.group.script import GROUP, START_MS, Script

from tailrace.base.invariant import InvariantError
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.member import ClassicGroupMember, Protocols
from tailrace.machines.group.classic.state import DEAD, TRANSITIONS, ClassicState, may_follow
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.log_record import Record

# Kafka's table without the transitions to Dead from Dead: row before, column after.
GRID = """
                      EMPTY PREPARING_REBALANCE COMPLETING_REBALANCE STABLE DEAD
EMPTY                 -     yes                 -                    -      yes
PREPARING_REBALANCE   yes   -                   yes                  -      yes
COMPLETING_REBALANCE  -     yes                 -                    yes    yes
STABLE                -     yes                 -                    -      yes
DEAD                  -     -                   -                    -      -
"""


def cells() -> list[tuple[ClassicState, ClassicState, bool]]:
    head, *rows = [line.split() for line in GRID.strip().splitlines()]
    assert head == [state.name for state in ClassicState]
    return [
        (ClassicState[before], ClassicState[after], mark == "yes")
        for before, *marks in rows
        for after, mark in zip(head, marks, strict=True)
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"), cells(), ids=[f"{before.name}-{after.name}" for before, after, _ in cells()]
)
def test_a_cell(before: ClassicState, after: ClassicState, expected: bool) -> None:
    assert may_follow(before, after) is expected
    group = ClassicGroup(GROUP)
    group.state = before
    if expected and after is not DEAD:
        group.transition(after, START_MS)
        assert (group.previous_state, group.state) == (before, after)
    elif not expected:
        with pytest.raises(InvariantError):
            group.transition(after, START_MS)


def test_every_state_of_a_group_in_memory_has_a_row() -> None:
    assert set(TRANSITIONS) == set(ClassicState) - {DEAD}


def test_names_of_protocols_are_forgotten_with_the_last_member_that_supports_them() -> None:
    """Each rejoin with 100,000 new names left 16 MB, because the names stayed with a count of 0."""

    def supporting(*names: str) -> Protocols:
        return tuple((name, b"") for name in names)

    group = ClassicGroup(GROUP)
    for member_id in ("a", "b"):
        group.add(ClassicGroupMember(member_id, None, "", "", 1, 1, supporting("range", member_id)), "consumer")
    assert group._votes == {"range": 2, "a": 1, "b": 1}
    group.update("a", supporting("range", "new"), 1, 1)
    assert dict(group._votes) == {"range": 2, "new": 1, "b": 1}
    group.remove("a")
    assert dict(group._votes) == {"range": 1, "b": 1}


def test_a_record_of_another_generation_in_place_of_the_draft_is_a_bug() -> None:
    script = Script()
    (member_id,) = script.stable("a")
    decision = script.machine.on_timer(script.now_ms, ("classic-session", GROUP, member_id))
    assert len(decision.records) == 1
    other = GroupMetadataValue(protocol_type="consumer", generation=7, protocol=None, leader=None)
    with pytest.raises(InvariantError, match="generation 7 is replayed for generation 2"):
        script.machine.replay(Record(GroupMetadataKey(group=GROUP), other))


def test_a_member_that_has_not_joined_cannot_lead_a_generation() -> None:
    script = Script()
    script.stable("a")
    group = script.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    draft = group.draft()
    with pytest.raises(InvariantError, match="would lead generation 2 and has not joined"):
        draft.start_generation(script.now_ms)
