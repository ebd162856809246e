"""Consumer groups as scripts: each heartbeat, its reply and its records.

Every script runs twice: once as it stands, and once with the coordinator lost and loaded after each step.
"""

import json
from pathlib import Path

import pytest
from tests.unit.machines.group.consumer.consumer_script import Script

from tailrace.base.invariant import InvariantError
from tailrace.config.broker import BrokerConfig
from tailrace.config.group import GroupConfig
from tailrace.machines.group.assignor.assignor import NOTHING, Assignment, GroupSpec
from tailrace.machines.group.consumer import subscription
from tailrace.machines.group.consumer.replay import KEYS
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting, consumer_group_setting
from tailrace.machines.group.consumer.target import ASSIGNORS
from tailrace.machines.group.record.format import decode_record
from tailrace.protocol.errors import ErrorCode


@pytest.fixture(params=[False, True], ids=["", "restarts"])
def script(request: pytest.FixtureRequest) -> Script:
    return Script(restarts=request.param, foo=4, bar=2)


def two_members(script: Script) -> None:
    """Members a and b that share foo, in epoch 3."""
    assert script.join("a", "foo") == "a@2 foo:0,1,2,3"
    script.wait(1_000)
    assert script.join("b", "foo") == "b@3 -"
    assert script.beat("a", 2) == "a@2 foo:0,1"
    assert script.beat("a", 2, owned={"foo": [0, 1]}) == "a@3"
    assert script.beat("b", 3) == "b@3 foo:2,3"


def test_the_first_member_gets_everything(script: Script) -> None:
    assert script.join("a", "foo") == "a@2 foo:0,1,2,3"
    assert script.written == [
        "member a foo",
        "epoch 2",
        "target a foo:0,1,2,3",
        "target-epoch 2",
        "current a 0->2 stable foo:0,1,2,3",
    ]
    assert script.beat("a", 2) == "a@2"
    assert script.written == []


def test_a_second_member_waits_until_the_first_has_let_go(script: Script) -> None:
    script.join("a", "foo")
    script.wait(1_000)
    assert script.join("b", "foo") == "b@3 -"
    assert script.written == [
        "member b foo",
        "epoch 3",
        "target a foo:0,1",
        "target b foo:2,3",
        "target-epoch 3",
        "current b 0->3 unreleased -",
    ]
    assert script.beat("a", 2) == "a@2 foo:0,1"
    assert script.written == ["current a 2->2 unrevoked foo:0,1 revoking foo:2,3"]
    assert script.beat("b", 3) == "b@3"
    assert script.beat("a", 2, owned={"foo": [0, 1, 2, 3]}) == "a@2", "it has not let go yet"
    assert script.written == []
    assert script.beat("a", 2, owned={"foo": [0, 1]}) == "a@3"
    assert script.written == ["current a 2->3 stable foo:0,1"]
    assert script.beat("b", 3) == "b@3 foo:2,3"
    assert script.written == ["current b 3->3 stable foo:2,3"]


def test_a_member_that_leaves_gives_its_partitions_to_the_rest(script: Script) -> None:
    two_members(script)
    script.wait(1_000)
    assert script.leave("b") == "b@-1"
    assert script.written == ["current b gone", "target b gone", "member b gone", "epoch 4"]
    assert script.beat("a", 3) == "a@4 foo:0,1,2,3"
    assert script.written == ["target a foo:0,1,2,3", "target-epoch 4", "current a 3->4 stable foo:0,1,2,3"]
    assert script.beat("b", 3) == "UNKNOWN_MEMBER_ID"


def test_a_silent_member_is_gone_when_its_session_ends() -> None:
    script = Script(foo=4)
    two_members(script)
    script.wait(44_000)
    script.beat("a", 3)
    assert script.wait(1_000) == ["current b gone", "target b gone", "member b gone", "epoch 4"]
    assert script.beat("a", 3) == "a@4 foo:0,1,2,3"


def test_a_member_whose_removal_cannot_be_written_is_removed_later() -> None:
    """It had no timer any more, and stayed in the group for ever."""
    script = Script(foo=4)
    script.join("a", "foo")
    script.timers.clear()
    decision = script.coordinator.on_timer(script.now_ms, ("consumer-session", "g", "a"))
    assert decision.failed is not None
    script.carry_out(decision.failed(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert script.wait(44_999) == []
    assert "member a gone" in script.wait(1)


def test_a_revocation_that_cannot_be_written_does_not_fence_its_member() -> None:
    """The member was timed as if it knew that it had to revoke partitions, and lost them all in the end."""
    script = Script(foo=2, bar=2)
    assert script.join("a", "foo", "bar") == "a@2 bar:0,1 foo:0,1"
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.beat("a", 2, names=["foo"]) == "COORDINATOR_NOT_AVAILABLE"
    for _ in range(13):
        assert script.wait(5_000) == []
        assert script.beat("a", 2, names=["foo", "bar"]) == "a@2"


def test_an_assignor_that_leaves_a_partition_out_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign_nothing(group: GroupSpec) -> dict[str, Assignment]:
        return dict.fromkeys(group.members, NOTHING)

    monkeypatch.setitem(ASSIGNORS, "uniform", assign_nothing)
    with pytest.raises(InvariantError, match="g: 0 of 2 partitions are assigned"):
        Script(foo=2).join("a", "foo")


def test_a_member_that_does_not_let_go_in_time_is_gone_though_it_sends_heartbeats() -> None:
    script = Script(foo=4)
    script.join("a", "foo", rebalance_timeout_ms=30_000)
    script.wait(1_000)
    script.join("b", "foo")
    assert script.beat("a", 2, owned={"foo": [0, 1, 2, 3]}) == "a@2 foo:0,1"
    script.wait(20_000)
    assert script.beat("a", 2, owned={"foo": [0, 1, 2, 3]}) == "a@2"
    assert script.wait(10_000) == ["current a gone", "target a gone", "member a gone", "epoch 4"]
    assert script.beat("b", 3) == "b@4 foo:0,1,2,3"
    assert script.beat("a", 2) == "UNKNOWN_MEMBER_ID"


def test_a_loaded_coordinator_still_limits_how_long_a_member_may_take_to_let_go() -> None:
    script = Script(foo=4)
    script.join("a", "foo", rebalance_timeout_ms=30_000)
    script.wait(1_000)
    script.join("b", "foo")
    script.beat("a", 2)
    script.restart()
    assert script.wait(29_999) == []
    assert "member a gone" in script.wait(1)


def test_epochs_are_fenced(script: Script) -> None:
    two_members(script)
    assert script.beat("a", 4) == "FENCED_MEMBER_EPOCH", "from the future"
    assert script.beat("a", 1) == "FENCED_MEMBER_EPOCH", "too old"
    assert script.beat("a", 2) == "FENCED_MEMBER_EPOCH", "the last one, without saying what it has"
    assert script.beat("a", 2, owned={"foo": [0, 2]}) == "FENCED_MEMBER_EPOCH", "it has what is not its own"
    assert script.beat("a", 2, owned={"foo": [0]}) == "a@3", "it missed the reply that told it the new epoch"
    assert script.beat("a", 2, owned={"foo": [0]}, names=["foo"], rebalance_timeout_ms=60_000) == "a@3 foo:0,1"


def test_a_member_that_forgot_its_epoch_joins_again_and_keeps_its_partitions(script: Script) -> None:
    two_members(script)
    assert script.join("a", "foo") == "a@3 foo:0,1"
    assert script.written == []


def test_unknown_groups_and_members(script: Script) -> None:
    assert script.beat("a", 1) == "GROUP_ID_NOT_FOUND"
    assert script.leave("a") == "GROUP_ID_NOT_FOUND"
    script.join("a", "foo")
    assert script.beat("b", 1) == "UNKNOWN_MEMBER_ID"
    assert script.leave("b") == "UNKNOWN_MEMBER_ID"
    assert script.beat("b", 1, instance="i") == "UNKNOWN_MEMBER_ID"


def test_a_changed_subscription_takes_partitions_back_at_once_and_moves_the_group_on(script: Script) -> None:
    script.join("a", "foo")
    script.wait(1_000)
    assert script.beat("a", 2, names=["bar"], owned={"foo": [0, 1, 2, 3]}) == "a@2 -"
    assert script.written == [
        "member a bar",
        "epoch 3",
        "target a bar:0,1",
        "target-epoch 3",
        "current a 2->2 unrevoked - revoking foo:0,1,2,3",
    ]
    assert script.beat("a", 2, owned={}) == "a@3 bar:0,1"
    assert script.written == ["current a 2->3 stable bar:0,1"]


def test_a_new_target_waits_for_the_assignment_interval(script: Script) -> None:
    """KIP-1263: a hundred members that join within a second cost two assignments, not a hundred."""
    script.join("a", "foo")
    script.wait(999)
    assert script.join("b", "foo") == "b@2 -"
    assert script.written == ["member b foo", "epoch 3", "current b 0->2 stable -"]
    script.wait(1)
    assert script.beat("b", 2) == "b@3"
    assert script.written == [
        "target a foo:0,1",
        "target b foo:2,3",
        "target-epoch 3",
        "current b 2->3 unreleased -",
    ]


def test_a_target_that_a_clock_ahead_has_dated_does_not_hold_up_the_next_one() -> None:
    """The clock of the coordinator before was an hour ahead. For that hour the group had no new target, and nobody read
    the partitions of a member that had died."""
    script = Script(foo=4)
    script.join("a", "foo")
    script.wait(1_000)
    assert script.join("b", "foo") == "b@3 -"
    script.now_ms -= 3_600_000
    script.restart()
    assert script.wait(30_000) == []
    assert script.beat("b", 3) == "b@3"
    assert "epoch 4" in script.wait(15_000)
    assert script.beat("b", 3) == "b@4 foo:0,1,2,3"


def test_topics_that_grow_come_or_go_move_the_group_on(script: Script) -> None:
    script.join("a", "foo", "new")
    script.wait(1_000)
    script.make_topic("foo", 5)
    assert script.beat("a", 2) == "a@3 foo:0,1,2,3,4"
    assert script.written == [
        "epoch 3",
        "target a foo:0,1,2,3,4",
        "target-epoch 3",
        "current a 2->3 stable foo:0,1,2,3,4",
    ]
    script.wait(1_000)
    script.make_topic("new", 1)
    assert script.beat("a", 3) == "a@4 foo:0,1,2,3,4 new:0"
    script.wait(1_000)
    script.delete_topic("foo")
    assert script.beat("a", 4, owned={"new": [0]}) == "a@5 new:0"
    script.make_topic("other", 1)
    assert script.beat("a", 5) == "a@5"
    assert script.written == []


def test_static_members_come_back_under_a_new_id(script: Script) -> None:
    assert script.join("a", "foo", instance="i") == "a@2 foo:0,1,2,3"
    assert script.join("z", "foo", instance="i") == "UNRELEASED_INSTANCE_ID"
    assert script.leave("a", -2, instance="i") == "a@-2"
    assert script.written == ["current a 0->-2 stable foo:0,1,2,3"]
    assert script.join("b", "foo", instance="i") == "b@2 foo:0,1,2,3"
    assert script.written == [
        "current a gone",
        "target a gone",
        "member a gone",
        "member b foo instance=i",
        "target b foo:0,1,2,3",
        "current b 0->0 stable foo:0,1,2,3",
        "current b 0->2 stable foo:0,1,2,3",
    ]
    assert script.beat("a", 2, instance="i") == "FENCED_INSTANCE_ID"
    assert script.leave("a", -2, instance="i") == "FENCED_INSTANCE_ID"
    assert script.beat("b", 2, instance="i") == "b@2"


def test_a_static_member_that_does_not_come_back_is_gone_when_its_session_ends() -> None:
    script = Script(foo=4)
    script.join("a", "foo", instance="i")
    script.leave("a", -2, instance="i")
    assert script.wait(44_999) == []
    assert script.wait(1) == ["current a gone", "target a gone", "member a gone", "epoch 3"]
    assert script.describe().group_state == "Empty"


def test_a_static_member_may_leave_for_good(script: Script) -> None:
    script.join("a", "foo", instance="i")
    assert script.leave("a", -1, instance="i") == "a@-1"
    assert script.written == ["current a gone", "target a gone", "member a gone", "epoch 3"]
    script.wait(1_000)
    assert script.join("b", "foo", instance="i") == "b@4 foo:0,1,2,3"


def test_the_coordinator_makes_an_id_for_members_of_version_0_only(script: Script) -> None:
    assert script.join("", "foo", version=0) == "made-1@2 foo:0,1,2,3"
    assert script.join("", "foo", version=1) == "INVALID_REQUEST"


def test_the_group_takes_so_many_members_and_no_more() -> None:
    script = Script(setting=ConsumerGroupSetting(size_max=1), foo=4)
    script.join("a", "foo", instance="i")
    assert script.join("b", "foo") == "GROUP_MAX_SIZE_REACHED"
    assert script.beat("a", 2, instance="i") == "a@2"
    script.leave("a", -2, instance="i")
    assert script.join("b", "foo", instance="i") == "b@2 foo:0,1,2,3", "a static member takes no new place"


def test_the_assignor_that_most_members_want_divides(script: Script) -> None:
    script.join("a", "foo", server_assignor="range")
    script.wait(1_000)
    assert script.join("b", "foo", server_assignor="sticky") == "UNSUPPORTED_ASSIGNOR"
    script.join("b", "foo", server_assignor="range")
    assert script.describe().assignor_name == "range"
    assert script.written[:2] == ["member b foo assignor=range", "epoch 3"]


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {"rebalance_timeout_ms": 1, "names": ["foo"]}),
        (0, {"rebalance_timeout_ms": 1, "names": ["foo"], "owned": {"foo": [0]}}),
        (0, {"names": ["foo"], "owned": {}}),
        (0, {"rebalance_timeout_ms": 1, "owned": {}}),
        (0, {"rebalance_timeout_ms": 1, "names": [], "owned": {}, "rack_id": " "}),
        (1, {"instance": ""}),
        (-2, {}),
        (-3, {"instance": "i"}),
    ],
)
def test_requests_that_cannot_be_meant(epoch: int, fields: dict[str, object]) -> None:
    assert Script(foo=1).beat("a", epoch, **fields) == "INVALID_REQUEST"  # type: ignore[arg-type]


def test_a_regular_expression_is_matched_after_the_first_heartbeat(script: Script) -> None:
    assert script.join("a", names=None, regex="fo+|bar") == "a@1 -"
    assert script.written == ["member a - /fo+|bar/", "current a 0->1 stable -"]
    assert script.wait(1_000) == ["regex fo+|bar bar,foo", "epoch 2"]
    assert script.beat("a", 1) == "a@2 bar:0,1 foo:0,1,2,3"


def test_a_regular_expression_finds_topics_that_come_later(script: Script) -> None:
    script.join("a", names=None, regex="foo.*")
    script.wait(11_000)
    assert script.beat("a", 1) == "a@2 foo:0,1,2,3"
    script.make_topic("foobar", 1)
    script.wait(1_000)
    assert script.beat("a", 2) == "a@2"
    assert script.wait(1_000) == ["regex foo.* foo,foobar", "epoch 3"]
    assert script.beat("a", 2) == "a@3 foo:0,1,2,3 foobar:0"


def test_a_regular_expression_finds_topics_although_a_clock_ahead_has_dated_the_last_search() -> None:
    """The clock of the coordinator before was an hour ahead, and for that hour nothing looked for new topics."""
    script = Script(foo=4)
    script.join("a", names=None, regex="foo.*")
    script.wait(11_000)
    assert script.beat("a", 1) == "a@2 foo:0,1,2,3"
    script.now_ms -= 3_600_000
    script.restart()
    script.make_topic("foobar", 1)
    script.wait(1_000)
    assert script.beat("a", 2) == "a@2"
    assert script.wait(1_000) == ["regex foo.* foo,foobar", "epoch 3"]
    assert script.beat("a", 2) == "a@3 foo:0,1,2,3 foobar:0"


def test_a_member_changes_its_regular_expression() -> None:
    script = Script(foo=4, bar=2)
    script.join("a", names=None, regex="foo")
    script.wait(11_000)
    script.beat("a", 1)
    assert script.beat("a", 2, regex="bar", owned={"foo": [0, 1, 2, 3]}) == "a@2 -"
    assert script.written == [
        "member a - /bar/",
        "regex foo gone",
        "current a 2->2 unrevoked - revoking foo:0,1,2,3",
    ]
    assert script.wait(1_000) == ["regex bar bar", "epoch 3"]
    assert script.beat("a", 2, owned={}) == "a@3 bar:0,1"
    script.leave("a")
    assert "regex bar gone" in script.written


def test_a_regular_expression_that_needs_much_memory_is_refused() -> None:
    """15 characters took 10 MB and a third of a second of the event loop."""
    script = Script(foo=4)
    assert script.join("a", names=None, regex=r"(\pL?){900}") == "INVALID_REGULAR_EXPRESSION"
    assert script.join("a", names=None, regex="(.?){1000}") == "INVALID_REGULAR_EXPRESSION"
    many = "|".join(f"orders-of-region-{number}.*" for number in range(100))
    assert script.join("a", names=None, regex=many) == "a@1 -"


def test_a_group_has_so_many_regular_expressions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member may have its own, and all are matched against all topics."""
    monkeypatch.setattr(subscription, "GROUP_REGEXES_MAX", 2)
    script = Script(foo=4)
    assert script.join("a", names=None, regex="foo") == "a@1 -"
    assert script.join("b", names=None, regex="fo+") == "b@1 -"
    assert script.join("c", names=None, regex="f.*") == "INVALID_REGULAR_EXPRESSION"
    assert script.join("c", names=None, regex="foo") == "c@1 -"
    assert script.beat("b", 1, regex="f.*") == "b@1"
    assert script.beat("c", 1, regex="f.o") == "INVALID_REGULAR_EXPRESSION"


def test_a_regular_expression_that_another_broker_accepted_may_be_too_large_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(foo=4)
    with monkeypatch.context() as patched:
        patched.setattr(subscription, "compile_regex", str)
        script.join("a", names=None, regex="(.?){1000}")
    assert script.wait(1_000) == ["regex (.?){1000} -"]


@pytest.mark.parametrize("regex", ["(", "a**", r"(?=x)", r"(a)\1"])
def test_a_regular_expression_that_re2_does_not_know_is_refused(script: Script, regex: str) -> None:
    assert script.join("a", names=None, regex=regex) == "INVALID_REGULAR_EXPRESSION"
    assert script.describe().error_code


def test_describe_shows_what_members_have_and_shall_have(script: Script) -> None:
    script.join("a", "foo", instance="i", rack_id="r")
    script.wait(1_000)
    script.join("b", "foo", server_assignor="range")
    script.beat("a", 2, instance="i")
    group = script.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Reconciling",
        3,
        3,
        "range",
    )
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 2)
    assert (first.client_id, first.client_host, first.member_type) == ("client", "/127.0.0.1", 1)
    assert [topic.partitions for topic in first.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert [(topic.topic_name, topic.partitions) for topic in first.target_assignment.topic_partitions] == [
        ("foo", [0, 1])
    ]
    assert second.assignment.topic_partitions == []
    assert script.describe("other").error_message == "Group other not found."


def kafka_lines(script: Script, group_id: str) -> list[str]:
    """What Apache Kafka 4.3.1 wrote for a group when the same happened there."""
    rows = json.loads((Path(__file__).parents[1] / "kafka_records.json").read_text())
    records = [decode_record(bytes.fromhex(key), bytes.fromhex(value) if value else None) for key, value in rows]
    ours = [record for record in records if isinstance(record.key, KEYS) and record.key.group_id == group_id]
    return [script.show(record).replace("?:", "page_views:") for record in ours]


def test_kafka_writes_the_same_when_a_member_comes_and_goes() -> None:
    script = Script(page_views=2)
    member = "9+tnd44eSaqbr2P0Jijs9Q"
    script.join(member, "page_views")
    script.leave(member)
    assert [script.show(decode_record(*encoded)) for encoded in script.log] == kafka_lines(script, "consumer-group")


def test_kafka_writes_the_same_for_a_regular_expression() -> None:
    script = Script(page_views=2, other=1)
    member = "WyHNI51vRdqDg1D21OiZSQ"
    script.join(member, names=None, regex="(^page.*)")
    script.wait(5_000)
    script.beat(member, 1)
    script.leave(member)
    assert [script.show(decode_record(*encoded)) for encoded in script.log] == kafka_lines(script, "regex-group")


def test_the_settings_of_a_group_come_from_its_options_and_the_brokers() -> None:
    broker = BrokerConfig({"group.consumer.max.size": "7", "group.consumer.migration.policy": "Upgrade"})
    group = GroupConfig.resolve({"consumer.session.timeout.ms": "50000"}, broker)
    setting = consumer_group_setting(group, broker)
    assert (setting.session_timeout_ms, setting.size_max, setting.assignors) == (50_000, 7, ("uniform", "range"))
    assert setting.migration.upgrades
    assert not setting.migration.downgrades
    assert consumer_group_setting(GroupConfig.resolve({}, BrokerConfig()), BrokerConfig()) == ConsumerGroupSetting()
