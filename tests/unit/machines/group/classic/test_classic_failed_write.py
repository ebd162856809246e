"""Decisions about a classic group whose records cannot be written."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.machines.group.script import GROUP, Script, answered

from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.group import Caller
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    SyncGroupRequest,
)

SESSION_MS = 10_000


def state_of(script: Script) -> dict[str, Any]:
    """Everything that the coordinator knows about the group, as a copy."""
    group = script.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return vars(group.draft())


def decide_leave(script: Script, member_id: str) -> Any:
    request = LeaveGroupRequest(group_id=GROUP, members=[LeaveGroupRequestMember(member_id=member_id)])
    return script.machine.decide_leave(script.now_ms, "leave", request)


def leave_of_the_last_member(script: Script) -> Any:
    (member_id,) = script.stable("a")
    return lambda: decide_leave(script, member_id)


def session_of_the_last_member(script: Script) -> Any:
    (member_id,) = script.stable("a")
    return lambda: script.machine.on_timer(script.now_ms, ("classic-session", GROUP, member_id))


def rebalance_without_members(script: Script) -> Any:
    script.stable("a", session_ms=300_000)
    response = script.join("b")
    assert response is not None
    script.join("b", response.member_id)
    script.carry_out(decide_leave(script, response.member_id))
    script.take("leave")
    assert script.state() == "PreparingRebalance"
    return lambda: script.machine.on_timer(script.now_ms, ("classic-join", GROUP, ""))


def sync_of_the_leader(script: Script) -> Any:
    script.new_member("a")
    script.pass_time(6_000)
    script.take("a")
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="c-1")
    return lambda: script.machine.decide_sync(script.now_ms, "a", request)


def return_of_a_static_member(script: Script) -> Any:
    script.join("a", instance_id="i")
    script.pass_time(3_000)
    script.take("a")
    script.sync_all(1, {"i-1": "a"})
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"new")],
    )
    return lambda: script.machine.decide_join(script.now_ms, "a", Caller("c", "/h", 9), request)


CASES: list[Callable[[Script], Any]] = [
    leave_of_the_last_member,
    session_of_the_last_member,
    rebalance_without_members,
    sync_of_the_leader,
    return_of_a_static_member,
]


@pytest.mark.parametrize("case", CASES)
def test_a_decision_with_records_changes_nothing_before_they_are_replayed(case: Callable[[Script], Any]) -> None:
    script = Script()
    decide = case(script)
    before = state_of(script)
    decision = decide()
    assert decision.records
    assert state_of(script) == before
    script.carry_out(decision)
    assert state_of(script) != before


@pytest.mark.parametrize("case", CASES)
def test_a_decision_that_cannot_be_written_changes_nothing(case: Callable[[Script], Any]) -> None:
    script = Script()
    decide = case(script)
    before = state_of(script)
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.carry_out(decide())
    if case is sync_of_the_leader:  # its members have to join again, as in Kafka
        assert script.state() == "PreparingRebalance"
    else:
        assert state_of(script) == before


def test_a_member_whose_leave_cannot_be_written_stays_until_its_session_ends() -> None:
    """The group was empty in memory and had a member in the log; the client was told of an error."""
    script = Script()
    (member_id,) = script.stable("a")
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.carry_out(decide_leave(script, member_id))
    assert script.take("leave") == LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert script.heartbeat(member_id, 1) is ErrorCode.NONE
    script.pass_time(SESSION_MS - 1)
    assert script.generations() == []
    script.pass_time(1)
    assert [len(generation.members) for generation in script.generations() if generation] == [0]
    assert script.state() == "Empty"


def test_a_member_that_cannot_be_removed_is_removed_after_another_session() -> None:
    script = Script()
    (member_id,) = script.stable("a")
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.pass_time(SESSION_MS)
    assert (script.state(), script.generations()) == ("Stable", [])
    assert script.heartbeat(member_id, 1) is ErrorCode.NONE
    script.pass_time(SESSION_MS)
    assert script.state() == "Empty"


def test_a_rebalance_that_cannot_be_written_ends_after_another_timeout() -> None:
    script = Script()
    rebalance_without_members(script)
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.pass_time(60_000)
    assert script.state() == "PreparingRebalance"
    script.pass_time(60_000)
    assert script.state() == "Empty"


def test_a_wait_of_no_time_is_not_tried_again_at_once() -> None:
    """A group without members waits no time for them. The coordinator must not write to a failed disk all the time."""
    script = Script()
    (member_id,) = script.stable("a")
    assert answered(script.join("b")).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert script.leave((member_id, None)) == [ErrorCode.NONE]
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.pass_time(999)
    assert script.state() == "PreparingRebalance"
    script.pass_time(1)
    assert script.state() == "Empty"


def test_an_unused_member_id_still_expires_after_a_write_failed() -> None:
    script = Script()
    (member_id,) = script.stable("a")
    new_id = answered(script.join("b")).member_id
    script.leave((member_id, None))
    key = ("classic-session", GROUP, new_id)
    del script.timers[key]
    script.append_error = ErrorCode.NOT_COORDINATOR
    script.carry_out(script.machine.on_timer(script.now_ms, key))
    assert script.timers[key] == script.now_ms + SESSION_MS
