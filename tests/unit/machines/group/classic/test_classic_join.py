"""Classic groups: from the first join to a stable generation, with every reply and record."""

import pytest
from tests.unit.machines.group.script import START_MS, Script, answered

from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.record.classic import GroupMetadataMember, GroupMetadataValue
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse


def member_record(member_id: str, assignment: bytes, instance_id: str | None = None) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout=60_000,
        session_timeout=10_000,
        subscription=b"sub",
        assignment=assignment,
    )


def test_two_members_from_nothing_to_their_assignments() -> None:
    script = Script()

    # The first join brings an id, and the group into the log.
    assert script.join("a") == JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-1", protocol_name=None
    )
    assert script.generations() == [
        GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=START_MS)
    ]
    assert script.state() == "Empty"

    # The second join waits for others.
    assert script.join("a", "c-1") is None
    assert script.state() == "PreparingRebalance"
    script.pass_time(2_000)
    b = script.new_member("b")
    assert b == "c-2"

    # The wait began when the first member came, and is longer by as much because another came.
    script.pass_time(999)
    assert (script.take("a"), script.take("b")) == (None, None)
    script.pass_time(3_001)
    assert script.take("a") == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="c-1",
        member_id="c-1",
        members=[
            JoinGroupResponseMember(member_id="c-1", metadata=b"sub"),
            JoinGroupResponseMember(member_id="c-2", metadata=b"sub"),
        ],
    )
    assert script.take("b") == JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader="c-1", member_id="c-2"
    )
    assert script.state() == "CompletingRebalance"
    assert script.generations() == []

    # The follower waits for the leader, whose assignments go to the log before anybody has them.
    assert script.sync("b", "c-2", 1) is None
    assert script.heartbeat("c-2", 1) is ErrorCode.NONE
    assert script.sync("a", "c-1", 1, {"c-1": b"left", "c-2": b"right"}) == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"left"
    )
    assert script.take("b") == SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"right")
    assert script.generations() == [
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="c-1",
            current_state_timestamp=START_MS + 6_000,
            members=[member_record("c-1", b"left"), member_record("c-2", b"right")],
        )
    ]
    assert script.state() == "Stable"
    assert script.heartbeat("c-1", 1) is ErrorCode.NONE


def test_a_wait_that_nobody_joins_ends_in_its_time() -> None:
    script = Script()
    script.new_member("a")
    script.pass_time(2_999)
    assert script.take("a") is None
    script.pass_time(1)
    assert script.take("a").generation_id == 1


def test_the_wait_for_more_members_is_never_longer_than_the_rebalance_timeout() -> None:
    script = Script()
    script.new_member("first", rebalance_ms=10_000)
    for number in range(1, 10):
        script.pass_time(1_100)
        script.new_member(str(number), rebalance_ms=10_000)
    assert script.take("first") is None
    script.pass_time(100)
    assert script.take("first").generation_id == 1


def test_before_version_4_one_join_is_enough() -> None:
    script = Script()
    assert script.join("a", version=3) is None
    assert len(script.generations()) == 1
    script.pass_time(3_000)
    assert script.take("a").member_id == "c-1"


def test_connect_joins_with_protocols_of_its_own() -> None:
    script = Script()
    script.new_member("w", protocol_type="connect", protocols=[("sessioned", b"url"), ("compatible", b"u")])
    script.pass_time(3_000)
    response = script.take("w")
    assert (response.protocol_type, response.protocol_name) == ("connect", "sessioned")
    assert (
        answered(script.join("x", protocols=[("sessioned", b"")])).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


@pytest.mark.parametrize(
    ("likings", "expected"),
    [
        (["range,rr", "range,rr", "rr,range"], "range"),
        (["rr,range", "range,rr", "rr,range"], "rr"),
        (["range,rr,sticky", "sticky,rr", "sticky,rr"], "sticky"),
        (["range,rr", "rr,sticky"], "rr"),
        (["range,rr", "rr,range"], "range"),
    ],
)
def test_the_protocol_is_what_all_know_and_most_like(likings: list[str], expected: str) -> None:
    script = Script()
    for number, liking in enumerate(likings):
        script.new_member(str(number), protocols=[(name, name.encode()) for name in liking.split(",")])
    script.pass_time(10_000)
    response = script.take("0")
    assert response.protocol_name == expected
    assert {member.metadata for member in response.members} == {expected.encode()}


def test_who_shares_no_protocol_with_the_group_is_sent_away() -> None:
    script = Script()
    script.new_member("a", protocols=[("range", b"")])
    for protocols, protocol_type in (([("sticky", b"")], "consumer"), ([("range", b"")], "other"), ([], "consumer")):
        response = script.join("b", protocols=protocols, protocol_type=protocol_type)
        assert response is not None
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # Nor does such a request found a group.
    script = Script()
    assert answered(script.join("b", protocols=[])).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answered(script.join("b", protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert script.log == []
    assert script.state() == "Dead"


@pytest.mark.parametrize(
    ("session_ms", "is_good"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_session_timeouts_have_bounds(session_ms: int, is_good: bool) -> None:
    expected = ErrorCode.MEMBER_ID_REQUIRED if is_good else ErrorCode.INVALID_SESSION_TIMEOUT
    assert answered(Script().join("a", session_ms=session_ms)).error_code == expected


def test_an_id_that_nobody_gave_out_is_unknown() -> None:
    script = Script()
    assert answered(script.join("a", "c-77")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    script.stable("a")
    assert answered(script.join("b", "c-77")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answered(script.sync("b", "c-77", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert script.heartbeat("c-77", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert script.leave(("c-77", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert script.state() == "Stable"


def test_a_group_without_a_name_is_refused() -> None:
    script = Script()
    script.group_id = ""
    assert answered(script.join("a")).error_code == ErrorCode.INVALID_GROUP_ID
    assert answered(script.sync("a", "m", 1)).error_code == ErrorCode.INVALID_GROUP_ID
    assert script.heartbeat("m", 1) is ErrorCode.INVALID_GROUP_ID


def test_an_id_that_is_not_used_goes_after_its_session() -> None:
    script = Script()
    (a,) = script.stable("a")
    assert answered(script.join("b")).member_id == "c-2"
    # The rebalance waits for those who have an id: they are about to join.
    assert script.join("a", a) is None
    script.pass_time(9_999)
    assert script.take("a") is None
    script.pass_time(1)
    assert script.take("a").generation_id == 2
    assert answered(script.join("b", "c-2")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_can_be_given_back() -> None:
    script = Script()
    (a,) = script.stable("a")
    assert answered(script.join("b")).member_id == "c-2"
    assert script.join("a", a) is None
    assert script.leave(("c-2", None)) == [ErrorCode.NONE]
    assert script.take("a").generation_id == 2


def test_a_full_group_takes_nobody_else() -> None:
    script = Script(ClassicGroupSetting(size_max=2))
    a, b = script.stable("a", "b")
    assert answered(script.join("c")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    # Those who are in may go on, and a place that becomes free is free.
    assert script.join("a", a) is None
    assert script.leave((b, None)) == [ErrorCode.NONE]
    assert script.take("a").generation_id == 2
    assert answered(script.join("c")).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_group_over_a_lowered_bound_shrinks_when_it_is_loaded() -> None:
    script = Script()
    a, b, c = script.stable("a", "b", "c")
    script.classic = ClassicGroupSetting(size_max=2)
    script.restart()
    assert script.state() == "PreparingRebalance"
    assert script.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert script.join("a", a) is None
    assert script.join("b", b) is None
    assert answered(script.join("c", c)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert script.heartbeat(c, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_that_are_given_out_have_a_bound() -> None:
    script = Script()
    for _ in range(1000):
        assert answered(script.join("a")).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answered(script.join("a")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert script.join("a", "c-1000") is None
    assert answered(script.join("b")).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_join_that_cannot_be_written_leaves_no_group() -> None:
    script = Script()
    script.append_error = ErrorCode.NOT_COORDINATOR
    assert answered(script.join("a")).error_code == ErrorCode.NOT_COORDINATOR
    assert script.state() == "Dead"
    assert script.timers == {}
    script.append_error = ErrorCode.NOT_COORDINATOR
    assert answered(script.join("a", version=3)).error_code == ErrorCode.NOT_COORDINATOR
    assert (script.state(), script.timers) == ("Dead", {})
