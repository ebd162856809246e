"""Static members of classic groups keep their places while they restart (KIP-345, KIP-814)."""

import pytest
from tests.unit.machines.group.script import Script, answered

from tailrace.machines.group.classic.change import JOIN, RESTARTED_WAIT_MS_MIN
from tailrace.protocol.consumer_protocol import ConsumerProtocolSubscription, encode_versioned
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember


def names(response: JoinGroupResponse) -> list[str]:
    return [member.member_id for member in response.members]


def test_a_static_member_comes_back_and_nobody_notices() -> None:
    script = Script()
    assert script.join("a", instance_id="i1") is None
    assert script.join("b", instance_id="i2") is None
    script.pass_time(6_000)
    assert script.take("a").members == [
        JoinGroupResponseMember(member_id="i1-1", group_instance_id="i1", metadata=b"sub"),
        JoinGroupResponseMember(member_id="i2-2", group_instance_id="i2", metadata=b"sub"),
    ]
    script.take("b")
    script.sync_all(1, {"i1-1": "a", "i2-2": "b"})
    script.new_records()
    # The follower restarts, and gets what it had under another id.
    assert script.join("b", instance_id="i2") == JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader="i1-1", member_id="i2-3"
    )
    (record,) = script.generations()
    assert [(m.member_id, m.assignment) for m in answered(record).members] == [("i1-1", b"a"), ("i2-3", b"b")]
    assert answered(script.sync("b", "i2-3", 1, instance_id="i2")).assignment == b"b"
    # Whoever still uses the old id is fenced.
    assert script.heartbeat("i2-2", 1, "i2") is ErrorCode.FENCED_INSTANCE_ID
    assert answered(script.sync("b", "i2-2", 1, instance_id="i2")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert answered(script.join("b", "i2-2", instance_id="i2")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert script.leave(("i2-2", "i2")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert script.state() == "Stable"


@pytest.mark.parametrize(
    ("version", "leader", "sees_members"), [(9, "i1-2", True), (8, "i1-1", False)], ids=["skips", "old client"]
)
def test_a_static_leader_comes_back(version: int, leader: str, sees_members: bool) -> None:
    script = Script()
    script.join("a", instance_id="i1", version=version)
    script.pass_time(3_000)
    script.take("a")
    script.sync_all(1, {"i1-1": "a"})
    response = script.join("a", instance_id="i1", version=version)
    assert response is not None
    # A new client is the leader and shall not assign (KIP-814); an old one is told that another leads.
    assert (response.leader, response.skip_assignment, bool(response.members)) == (leader, sees_members, sees_members)
    assert response.member_id == "i1-2"
    # The leader's next join, for topics that changed, is a rebalance as always.
    assert answered(script.join("a", "i1-2", instance_id="i1")).generation_id == 2


def test_a_static_member_with_another_protocol_is_a_rebalance() -> None:
    script = Script()
    script.join("a", instance_id="i1", protocols=[("range", b"r"), ("sticky", b"s")])
    script.pass_time(3_000)
    assert script.take("a").protocol_name == "range"
    script.sync_all(1, {"i1-1": "a"})
    response = answered(script.join("a", instance_id="i1", protocols=[("sticky", b"s"), ("range", b"r")]))
    assert (response.generation_id, response.protocol_name, response.leader) == (2, "sticky", "i1-2")
    assert (
        answered(script.join("a", instance_id="i1", protocols=[("x", b"")])).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


def subscription(topics: list[str], generation: int) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=topics, generation_id=generation))


@pytest.mark.parametrize("restarts", [False, True], ids=["remembered", "loaded"])
def test_a_static_member_that_subscribes_to_other_topics_is_a_rebalance(restarts: bool) -> None:
    """A pattern matched a new topic while the member was away. The member got its old assignment when it came back, and
    its client saw no change after that: the new topic belonged to no member until the next rebalance.
    """
    script = Script()
    script.join("a", instance_id="i1", protocols=[("range", subscription(["views"], -1))])
    script.join("b", instance_id="i2", protocols=[("range", subscription(["views"], -1))])
    script.pass_time(6_000)
    assert (script.take("a").leader, script.take("b").leader) == ("i1-1", "i1-1")
    script.sync_all(1, {"i1-1": "a", "i2-2": "b"})
    if restarts:
        script.restart()
    # With the same topics it keeps its assignment, whatever else its metadata says.
    back = answered(script.join("b", instance_id="i2", protocols=[("range", subscription(["views"], 1))]))
    assert (back.generation_id, script.state()) == (1, "Stable")
    wider = [("range", subscription(["views", "visits"], 1))]
    assert script.join("b", instance_id="i2", protocols=wider) is None
    assert script.heartbeat("i1-1", 1, "i1") is ErrorCode.REBALANCE_IN_PROGRESS
    led = answered(script.join("a", "i1-1", instance_id="i1", protocols=[("range", subscription(["views"], 1))]))
    assert (led.generation_id, led.leader, led.skip_assignment) == (2, "i1-1", False)
    assert script.take("b").generation_id == 2
    assert [member.metadata for member in led.members][1] == wider[0][1]


def test_a_static_member_stays_when_it_is_late_and_goes_with_its_session() -> None:
    script = Script()
    script.join("a", instance_id="i1", rebalance_ms=5_000, session_ms=30_000)
    script.join("b", instance_id="i2", rebalance_ms=5_000, session_ms=30_000)
    script.pass_time(6_000)
    script.take("a"), script.take("b")
    script.sync_all(1, {"i1-1": "a", "i2-2": "b"})
    assert script.join("a", "i1-1", instance_id="i1", rebalance_ms=5_000, session_ms=30_000) is None
    script.pass_time(5_000)
    response = script.take("a")
    assert (response.generation_id, names(response)) == (2, ["i1-1", "i2-2"])


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    script = Script()
    script.join("a", instance_id="i1")
    script.pass_time(3_000)
    script.take("a")
    script.sync_all(1, {"i1-1": "a"})
    assert script.leave(("", "i1"), ("", "i9"), ("", None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert script.state() == "Empty"


def test_two_clients_with_one_instance_id() -> None:
    script = Script()
    assert script.join("a", instance_id="i1") is None
    # The second comes while the first waits, which is fenced.
    assert script.join("b", instance_id="i1") is None
    assert script.take("a") == JoinGroupResponse(
        error_code=ErrorCode.FENCED_INSTANCE_ID, member_id="i1-1", protocol_name=None
    )
    script.pass_time(3_000)
    response = script.take("b")
    assert (response.leader, names(response)) == ("i1-2", ["i1-2"])


def test_a_new_id_that_cannot_be_written_is_taken_back() -> None:
    script = Script()
    script.join("a", instance_id="i1")
    script.pass_time(3_000)
    script.take("a")
    script.sync_all(1, {"i1-1": "a"})
    script.append_error = ErrorCode.NOT_COORDINATOR
    response = answered(script.join("a", instance_id="i1", protocols=[("range", b"new")]))
    assert (response.error_code, response.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert script.heartbeat("i1-1", 1, "i1") is ErrorCode.NONE
    assert script.heartbeat("i1-2", 1, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert script.machine.describe("g", 0).members[0].member_metadata == b"sub"


def two_static_members() -> Script:
    script = Script()
    for name, instance in (("a", "i1"), ("b", "i2")):
        script.join(name, instance_id=instance, rebalance_ms=5_000, session_ms=30_000)
    script.pass_time(6_000)
    assert (script.take("a").leader, script.take("b").leader) == ("i1-1", "i1-1")
    return script


def test_a_static_member_that_returns_while_the_leader_assigns_is_a_rebalance() -> None:
    script = two_static_members()
    assert answered(script.sync("a", "i1-1", 1, {"i1-1": b"a", "i2-2": b"b"})).assignment == b"a"
    assert script.join("a", "i1-1", instance_id="i1", rebalance_ms=5_000, session_ms=30_000) is None
    assert (
        answered(script.join("b", "i2-2", instance_id="i2", rebalance_ms=5_000, session_ms=30_000)).generation_id == 2
    )
    script.take("a")
    # The leader may have the former id in what it is about to assign.
    assert script.join("b", instance_id="i2", rebalance_ms=5_000, session_ms=30_000) is None
    assert script.state() == "PreparingRebalance"
    response = answered(script.join("a", "i1-1", instance_id="i1", rebalance_ms=5_000, session_ms=30_000))
    assert (response.generation_id, names(response)) == (3, ["i1-1", "i2-3"])


def test_a_static_leader_that_is_late_is_not_the_leader_any_more() -> None:
    script = two_static_members()
    script.sync_all(1, {"i1-1": "a", "i2-2": "b"})
    assert script.join("b", "i2-2", instance_id="i2", protocols=[("range", b"new")], session_ms=30_000) is None
    script.pass_time(60_000)
    response = script.take("b")
    assert (response.leader, names(response)) == ("i2-2", ["i2-2"])


def test_while_only_static_members_are_left_and_none_comes_their_sessions_decide() -> None:
    script = two_static_members()
    script.sync_all(1, {"i1-1": "a", "i2-2": "b"})
    dynamic = script.new_member("c", rebalance_ms=5_000)
    script.pass_time(4_000)
    assert script.leave((dynamic, None)) == [ErrorCode.NONE]
    script.take("c")
    script.pass_time(10_000)
    # Twice the wait for them is over, and they are still members.
    assert script.state() == "PreparingRebalance"
    assert len(script.machine.describe("g", 0).members) == 2
    script.pass_time(20_000)
    assert script.state() == "Empty"


def test_static_members_with_a_tiny_rebalance_timeout_are_awaited_in_steps() -> None:
    """The wait for them ended at once and began again, as long as their sessions lasted."""
    script = Script()
    script.join("s", instance_id="i", rebalance_ms=1)
    script.pass_time(script.classic.initial_rebalance_delay_ms)
    static_id = script.take("s").member_id
    script.sync("s", static_id, 1, {static_id: b"all"}, instance_id="i")
    other_id = answered(script.join("d", rebalance_ms=0)).member_id
    script.join("d", other_id, rebalance_ms=0)
    script.leave((other_id, None))
    before_ms = script.now_ms
    key, at_ms = next((key, at_ms) for key, at_ms in script.timers.items() if key[0] == JOIN)
    del script.timers[key]
    script.carry_out(script.machine.on_timer(at_ms, key))
    assert script.timers[key] >= before_ms + RESTARTED_WAIT_MS_MIN
