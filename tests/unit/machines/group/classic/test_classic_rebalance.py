"""Classic groups after their first generation: members leave, die, are slow and come back."""

from tests.unit.machines.group.script import START_MS, Script, answered

from tailrace.machines.group.record.classic import GroupMetadataValue
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import JoinGroupResponse, SyncGroupResponse


def names(response: JoinGroupResponse) -> list[str]:
    return [member.member_id for member in response.members]


def test_a_new_member_makes_the_others_join_again() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    c = script.new_member("c")
    assert script.state() == "PreparingRebalance"
    assert script.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert answered(script.sync("b", b, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert script.join("a", a) is None
    last = answered(script.join("b", b))
    leader = script.take("a")
    assert (leader.generation_id, names(leader)) == (2, [a, b, c])
    for follower in (last, script.take("c")):
        assert (follower.generation_id, follower.leader, names(follower)) == (2, a, [])
    assert script.state() == "CompletingRebalance"


def test_a_member_that_leaves_is_not_waited_for() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.leave((b, None)) == [ErrorCode.NONE]
    assert script.state() == "PreparingRebalance"
    response = answered(script.join("a", a))
    assert (response.generation_id, names(response)) == (2, [a])
    assert script.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group_in_the_log() -> None:
    script = Script()
    (a,) = script.stable("a")
    script.pass_time(500)
    assert script.leave((a, None)) == [ErrorCode.NONE]
    assert script.generations() == [
        GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol=None,
            leader=None,
            current_state_timestamp=START_MS + 6_500,
        )
    ]
    assert script.state() == "Empty"
    script.restart()
    assert script.state() == "Empty"
    # The next member founds generation 3, not 1: a zombie of an earlier one can never look right.
    script.new_member("b")
    script.pass_time(3_000)
    assert script.take("b").generation_id == 3


def test_a_crashed_member_goes_when_its_session_ends() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    script.pass_time(6_000)
    assert script.heartbeat(a, 1) is ErrorCode.NONE
    script.pass_time(3_999)
    assert script.state() == "Stable"
    script.pass_time(1)
    assert script.state() == "PreparingRebalance"
    response = answered(script.join("a", a))
    assert (response.generation_id, names(response)) == (2, [a])
    assert script.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_whose_client_is_gone_is_given_up_after_five_minutes() -> None:
    script = Script()
    (a,) = script.stable("a", session_ms=1_000_000, rebalance_ms=1_000_000)
    script.new_member("b", rebalance_ms=1_000_000)
    script.pass_time(299_999)
    assert script.take("b") is None
    script.pass_time(1)
    assert script.take("b") == JoinGroupResponse(
        error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="", protocol_name=None
    )
    assert answered(script.join("a", a)).generation_id == 2


def test_a_slow_member_is_dropped_when_the_rebalance_times_out() -> None:
    script = Script()
    a, b = script.stable("a", "b", rebalance_ms=20_000, session_ms=15_000)
    assert script.join("a", a, rebalance_ms=20_000, session_ms=15_000) is None
    # The slow member lives, and works on; it is only late.
    for _ in range(2):
        script.pass_time(9_999)
        assert script.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert script.take("a") is None
    script.pass_time(2)
    response = script.take("a")
    assert (response.generation_id, names(response)) == (2, [a])
    assert answered(script.join("b", b)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_joins_and_never_syncs_is_dropped() -> None:
    script = Script()
    a, b = script.stable("a", "b", rebalance_ms=20_000, session_ms=60_000)
    assert script.join("a", a, rebalance_ms=20_000, session_ms=60_000) is None
    assert answered(script.join("b", b, rebalance_ms=20_000, session_ms=60_000)).generation_id == 2
    assert script.take("a").leader == a
    assert answered(script.sync("a", a, 2, {a: b"all"})).assignment == b"all"
    assert script.state() == "Stable"
    script.pass_time(19_999)
    assert script.state() == "Stable"
    script.pass_time(1)
    assert script.state() == "PreparingRebalance"
    assert names(answered(script.join("a", a))) == [a]


def test_a_leader_that_never_syncs_makes_way_for_another() -> None:
    script = Script()
    a, b = script.stable("a", "b", rebalance_ms=20_000, session_ms=60_000)
    assert script.join("a", a, rebalance_ms=20_000, session_ms=60_000) is None
    assert answered(script.join("b", b, rebalance_ms=20_000, session_ms=60_000)).leader == a
    script.take("a")
    assert script.sync("b", b, 2) is None
    script.pass_time(20_000)
    assert script.take("b") == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    response = answered(script.join("b", b))
    assert (response.leader, names(response), response.generation_id) == (b, [b], 3)


def test_a_zombie_of_an_old_generation_is_turned_away() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.join("a", a) is None
    assert answered(script.join("b", b)).generation_id == 2
    script.take("a")
    script.sync_all(2, {a: "a", b: "b"})
    assert script.heartbeat(b, 1) is ErrorCode.ILLEGAL_GENERATION
    assert answered(script.sync("b", b, 1)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert script.heartbeat(b, 2) is ErrorCode.NONE


def test_a_member_that_missed_a_reply_gets_it_again() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    # In a stable group a follower that joins as it was is only told where it is.
    assert script.join("b", b) == JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader=a, member_id=b
    )
    assert answered(script.sync("b", b, 1)).assignment == b"b"
    assert script.state() == "Stable"
    # Its leader wants a rebalance.
    assert script.join("a", a) is None
    assert script.state() == "PreparingRebalance"
    assert answered(script.join("b", b)).generation_id == 2
    assert names(script.take("a")) == [a, b]
    # While the leader's assignment is awaited, both can ask again.
    assert answered(script.join("b", b)).generation_id == 2
    assert names(answered(script.join("a", a))) == [a, b]


def test_a_member_that_changes_its_subscription_makes_all_join_again() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.join("b", b, protocols=[("range", b"other")]) is None
    response = answered(script.join("a", a))
    assert [member.metadata for member in response.members] == [b"sub", b"other"]


def test_a_join_that_is_sent_again_takes_the_place_of_the_first() -> None:
    script = Script()
    a, _ = script.stable("a", "b")
    assert script.join("a", a) is None
    assert script.join("a again", a) is None
    assert script.take("a").error_code == ErrorCode.REBALANCE_IN_PROGRESS
    script.pass_time(10_000)
    assert script.take("a again").generation_id == 2


def test_protocols_are_checked_in_sync() -> None:
    script = Script()
    (a,) = script.stable("a")
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answered(script.sync("a", a, 1, protocol_type="connect", protocol_name="range")).error_code == wrong
    assert answered(script.sync("a", a, 1, protocol_type="consumer", protocol_name="sticky")).error_code == wrong
    assert (
        answered(script.sync("a", a, 1, protocol_type="consumer", protocol_name="range")).error_code == ErrorCode.NONE
    )


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    script = Script()
    script.new_member("a")
    script.new_member("b")
    script.pass_time(6_000)
    script.take("a"), script.take("b")
    assert answered(script.sync("a", "c-1", 1, {"c-1": b"x", "stranger": b"y"})).assignment == b"x"
    assert answered(script.sync("b", "c-2", 1)).assignment == b""
    assert [member.assignment for member in answered(script.generations()[-1]).members] == [b"x", b""]


def test_a_generation_that_cannot_be_written_never_was() -> None:
    script = Script()
    script.new_member("a")
    script.new_member("b")
    script.pass_time(6_000)
    script.take("a"), script.take("b")
    assert script.sync("b", "c-2", 1) is None
    script.append_error = ErrorCode.NOT_COORDINATOR
    assert script.sync("a", "c-1", 1, {"c-1": b"x"}) == SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert script.take("b") == SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert script.state() == "PreparingRebalance"
    assert script.join("b", "c-2") is None
    assert answered(script.join("a", "c-1")).generation_id == 2
    script.take("b")
    script.sync_all(2, {"c-1": "a", "c-2": "b"})
