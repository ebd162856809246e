"""The coordinator of a classic group restarts in the middle of each step."""

from tests.unit.machines.group.script import Script, answered

from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataMember, GroupMetadataValue
from tailrace.machines.group.record.format import encode_record
from tailrace.machines.log_record import Record
from tailrace.protocol import codec
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import JoinGroupResponse
from tailrace.records.batch import NO_PRODUCER_ID


def names(response: JoinGroupResponse) -> list[str]:
    return [member.member_id for member in response.members]


def test_a_restart_while_an_id_is_given_out() -> None:
    script = Script()
    assert answered(script.join("a")).member_id == "c-1"
    script.restart()
    assert script.state() == "Empty"
    assert answered(script.join("a", "c-1")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    script.new_member("a")
    script.pass_time(3_000)
    assert script.take("a").generation_id == 1


def test_a_restart_while_the_first_members_join() -> None:
    script = Script()
    script.new_member("a")
    script.restart()
    assert (script.state(), script.take("a")) == ("Empty", None)
    assert script.heartbeat("c-1", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_while_the_leader_assigns() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.join("a", a) is None
    assert answered(script.join("b", b)).generation_id == 2
    script.restart()
    # The log holds generation 1: whoever is in 2 has to join again, and the group gets there.
    assert script.state() == "Stable"
    assert answered(script.sync("a", a, 2, {a: b"x"})).error_code == ErrorCode.ILLEGAL_GENERATION
    assert script.join("a", a) is None
    assert answered(script.join("b", b)).generation_id == 2
    assert names(script.take("a")) == [a, b]


def test_a_restart_of_a_stable_group() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    script.pass_time(9_000)
    script.restart()
    described = script.machine.describe("g", 0)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (m.member_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment) for m in described.members
    ] == [
        (a, "c", "/h", b"sub", b"a"),
        (b, "c", "/h", b"sub", b"b"),
    ]
    # Members have a whole session to find the coordinator, and go on as if nothing had happened.
    script.pass_time(9_999)
    assert script.heartbeat(a, 1) is ErrorCode.NONE
    assert answered(script.sync("a", a, 1)).assignment == b"a"
    script.pass_time(1)
    assert script.state() == "PreparingRebalance"
    assert names(answered(script.join("a", a))) == [a]


def test_a_restart_while_members_come_together_again() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.leave((b, None)) == [ErrorCode.NONE]
    assert script.state() == "PreparingRebalance"
    script.restart()
    # Nothing was written since generation 1, so its member is back, until its session ends.
    assert script.state() == "Stable"
    script.pass_time(9_000)
    assert script.heartbeat(a, 1) is ErrorCode.NONE
    script.pass_time(1_000)
    assert names(answered(script.join("a", a))) == [a]


def test_those_who_wait_are_told_when_another_broker_takes_over() -> None:
    script = Script()
    a, _ = script.stable("a", "b")
    assert script.join("a", a) is None
    script.carry_out(script.machine.on_unloaded())
    assert script.take("a").error_code == ErrorCode.NOT_COORDINATOR


def test_a_group_that_an_old_kafka_wrote() -> None:
    """Version 0 of the record knows neither rebalance timeouts nor static members nor when a group became empty."""
    script = Script()
    key = encode_record(Record(GroupMetadataKey(group="g"), None))[0]
    member = GroupMetadataMember(
        member_id="m", client_id="c", client_host="/h", session_timeout=7_000, subscription=b"s"
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member])
    script.log.append((key, b"\0\0" + codec.encode(value, 0), NO_PRODUCER_ID))
    script.restart()
    assert script.heartbeat("m", 4) is ErrorCode.NONE
    # Its session timeout stands for the rebalance timeout: so long it is waited for.
    second = script.new_member("b", session_ms=20_000, rebalance_ms=1_000)
    script.pass_time(6_999)
    assert script.take("b") is None
    script.pass_time(1)
    assert names(script.take("b")) == [second]
