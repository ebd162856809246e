"""Groups that change their protocol while they run, as scripts: each request, its reply and its records."""

import json
from pathlib import Path

import pytest
from tests.unit.machines.group.consumer.consumer_script import Script

from tailrace.machines.group.consumer.setting import ConsumerGroupSetting, MigrationPolicy
from tailrace.machines.group.record.format import decode_record
from tailrace.protocol.errors import ErrorCode


def classic_group(script: Script) -> str:
    """A stable classic group of one member, which has all of foo; its member id."""
    member = script.classic_join("old", "foo").removeprefix("MEMBER_ID_REQUIRED ")
    assert script.classic_join("old", "foo", member=member) == "waits"
    script.wait(3_000)
    assert script.take("old") == f"{member}@1 range leads"
    assert script.classic_sync("old", member, 1, {member: {"foo": [0, 1, 2, 3]}}) == "foo:0,1,2,3"
    assert script.written == [f"classic @1 {member}(foo:0,1,2,3)"]
    return member


def mixed_group(script: Script) -> str:
    """The same group after a member `new` of the new protocol came; each has two partitions."""
    member = classic_group(script)
    assert script.join("new", "foo") == "new@2 -"
    assert script.classic_beat("old", member, 1) == "REBALANCE_IN_PROGRESS"
    assert script.classic_join("old", "foo", member=member) == f"{member}@2 range"
    assert script.classic_sync("old", member, 2) == "foo:0,1"
    assert script.beat("new", 2) == "new@2 foo:2,3"
    assert script.classic_beat("old", member, 2) == "NONE"
    return member


def test_a_classic_group_goes_up_when_a_member_of_the_new_protocol_joins() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    assert script.join("new", "foo") == "new@2 -"
    assert script.written == [
        "classic gone",
        f"member {member} foo classic",
        "epoch 1",
        f"target {member} foo:0,1,2,3",
        "target-epoch 1",
        f"current {member} 1->1 stable foo:0,1,2,3",
        "member new foo",
        "epoch 2",
        "target new foo:2,3",
        f"target {member} foo:0,1",
        "target-epoch 2",
        "current new 0->2 unreleased -",
    ]
    assert script.describe().members[1].member_type == 0


def test_an_eager_classic_member_lets_everything_go_before_it_joins() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    script.join("new", "foo")
    assert script.classic_join("old", "foo", member=member, owned={}) == f"{member}@2 range"
    assert script.written == [f"current {member} 1->2 stable foo:0,1"]
    assert script.classic_sync("old", member, 2) == "foo:0,1"
    assert script.classic_sync("old", member, 1) == "ILLEGAL_GENERATION"


def test_a_cooperative_classic_member_joins_twice_to_let_something_go() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    script.join("new", "foo")
    assert script.classic_join("old", "foo", member=member, owned={"foo": [0, 1, 2, 3]}) == f"{member}@1 range"
    assert script.written == [
        f"member {member} foo classic",
        f"current {member} 1->1 unrevoked foo:0,1 revoking foo:2,3",
    ]
    assert script.classic_sync("old", member, 1) == "foo:0,1"
    assert script.classic_beat("old", member, 1) == "REBALANCE_IN_PROGRESS", "it has to say that it let go"
    assert script.beat("new", 2) == "new@2"
    assert script.classic_join("old", "foo", member=member, owned={"foo": [0, 1]}) == f"{member}@2 range"
    assert script.beat("new", 2) == "new@2 foo:2,3"


def test_a_classic_member_gets_more_when_it_is_free() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    script.wait(1_000)
    assert script.classic_join("third", "foo") == "MEMBER_ID_REQUIRED made-2"
    assert script.classic_join("third", "foo", member="made-2") == "made-2@3 range"
    assert script.written[-1] == "current made-2 0->3 unreleased -"
    assert script.classic_sync("third", "made-2", 3) == "-"
    assert script.classic_beat("third", "made-2", 3) == "NONE", "nothing is free yet"
    assert script.classic_beat("old", member, 2) == "REBALANCE_IN_PROGRESS"
    assert script.classic_join("old", "foo", member=member, owned={}) == f"{member}@3 range"
    assert script.classic_sync("old", member, 3) == "foo:0"
    assert script.classic_beat("third", "made-2", 3) == "REBALANCE_IN_PROGRESS", "now there is something"
    assert script.classic_join("third", "foo", member="made-2") == "made-2@3 range"
    assert script.classic_sync("third", "made-2", 3) == "foo:1"


def test_whoever_waits_in_a_classic_group_is_told_to_join_again() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    assert script.classic_join("late", "foo") == "MEMBER_ID_REQUIRED late-made-2"
    assert script.classic_join("late", "foo", member="late-made-2") == "waits"
    script.join("new", "foo")
    assert script.take("late") == "REBALANCE_IN_PROGRESS"
    assert script.classic_beat("old", member, 1) == "REBALANCE_IN_PROGRESS"


def test_a_cooperative_member_keeps_what_it_has_when_the_group_goes_up_in_the_middle_of_a_rebalance() -> None:
    """Assignments are forgotten when a rebalance begins before the last one was over; the member has them still."""
    script = Script(foo=4)
    member = classic_group(script)
    assert script.classic_join("late", "foo") == "MEMBER_ID_REQUIRED late-made-2"
    assert script.classic_join("late", "foo", member="late-made-2") == "waits"
    assert script.classic_join("old", "foo", member=member, owned={"foo": [0, 1, 2, 3]}) == f"{member}@2 range leads"
    assert script.take("late") == "late-made-2@2 range"
    assert script.classic_join("third", "foo") == "MEMBER_ID_REQUIRED third-made-3"
    assert script.classic_join("third", "foo", member="third-made-3") == "waits"
    assert script.join("new", "foo") == "new@3 -"
    assert f"current {member} 2->2 stable foo:0,1,2,3" in script.written


def test_a_refused_member_changes_nothing_for_those_who_wait() -> None:
    """The replies of waiting members were lost when the upgrade was refused after they had been sent away."""
    script = Script(foo=4)
    classic_group(script)
    script.classic_join("late", "foo")
    script.classic_join("late", "foo", member="late-made-2")
    assert script.join("new", names=None, regex="(") == "INVALID_REGULAR_EXPRESSION"
    assert script.take("late") == "waits"
    script.wait(60_000)
    assert script.take("late") == "late-made-2@2 range leads", "the silent member is gone and this one goes on"


def test_the_group_goes_down_when_its_last_member_of_the_new_protocol_leaves() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    assert script.leave("new") == "new@-1"
    assert script.written == [
        f"current {member} gone",
        "current new gone",
        f"target {member} gone",
        "target new gone",
        "target-epoch gone",
        f"member {member} gone",
        "member new gone",
        "partition-metadata gone",
        "epoch gone",
        f"classic @2 {member}(foo:0,1)",
    ]
    assert script.classic_beat("old", member, 2) == "REBALANCE_IN_PROGRESS"
    assert script.classic_join("old", "foo", member=member) == f"{member}@3 range leads"
    assert script.classic_sync("old", member, 3, {member: {"foo": [0, 1, 2, 3]}}) == "foo:0,1,2,3"
    assert script.written == [f"classic @3 {member}(foo:0,1,2,3)"]


def test_the_group_goes_down_when_its_last_member_of_the_new_protocol_dies() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    for _ in range(9):
        script.wait(5_000)
        script.classic_beat("old", member, 2)
    assert script.written == []
    assert script.classic_beat("old", member, 2) == "REBALANCE_IN_PROGRESS"
    assert script.classic_join("old", "foo", member=member) == f"{member}@3 range leads"


def test_a_loaded_group_is_what_it_was() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    script.restart()
    assert script.classic_beat("old", member, 2) == "NONE"
    script.leave("new")
    script.restart()
    assert script.classic_beat("old", member, 2) == "NONE", "the rebalance is soft, the group is not"
    assert script.join("newer", "foo") == "newer@3 foo:2,3"
    script.restart()
    assert script.classic_beat("old", member, 2) == "REBALANCE_IN_PROGRESS"


def test_a_write_that_fails_leaves_the_group_as_it_was() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    decision = script.coordinator.on_timer(script.now_ms, ("consumer-session", "g", "new"))
    assert script.coordinator.groups["g"].group_type == "consumer"  # until the records are replayed
    assert decision.failed is not None
    script.carry_out(decision.failed(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert script.coordinator.groups["g"].group_type == "consumer"
    assert script.beat("new", 2) == "new@2"
    assert script.classic_beat("old", member, 2) == "NONE"


def test_a_downgraded_group_remembers_the_partitions_of_a_member_that_has_not_revoked_them() -> None:
    """The downgrade wrote targets as assignments. A restart lost the rebalance that followed it, and the next upgrade
    gave a partition to a new member that another one still owned."""
    script = Script(foo=4)
    member = classic_group(script)
    assert script.join("new", "foo") == "new@2 -", "its target is foo:2,3, which the other member has not revoked"
    assert script.leave("new") == "new@-1"
    assert script.written[-1] == f"classic @2 {member}(foo:0,1,2,3)"
    script.restart()
    assert script.join("newer", "foo") == "newer@3 -"


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group_with_its_waiting_members() -> None:
    """The coordinator refused the joins that waited, and dropped them, although the group stayed classic."""
    script = Script(foo=4)
    classic_group(script)
    script.classic_join("late", "foo")
    assert script.classic_join("late", "foo", member="late-made-2") == "waits"
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.join("new", "foo") == "COORDINATOR_NOT_AVAILABLE"
    assert script.coordinator.describe("g", 0).group_state == "PreparingRebalance"
    assert script.take("late") == "waits"
    script.wait(60_000)
    assert script.take("late") == "late-made-2@2 range leads"


def test_a_downgrade_that_cannot_be_written_keeps_the_timers_of_the_other_members() -> None:
    """The timers of members that stayed were stopped for the downgrade and not set again when it failed."""
    script = Script(foo=4)
    member = mixed_group(script)
    script.wait(1_000)
    script.join("newer", "foo")
    assert script.classic_beat("old", member, 2) == "REBALANCE_IN_PROGRESS"  # it has 60 seconds to join again
    script.leave("newer")
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.leave("new") == "COORDINATOR_NOT_AVAILABLE"
    assert script.coordinator.groups["g"].group_type == "consumer"
    assert script.timers["consumer-join", "g", member] == script.now_ms + 60_000


def test_a_classic_group_that_cannot_be_written_leaves_the_empty_consumer_group() -> None:
    script = Script(foo=4)
    script.join("a", "foo")
    script.leave("a")
    before = script.coordinator.groups["g"]
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.classic_join("old", "foo", version=3) == "COORDINATOR_NOT_AVAILABLE"
    assert script.coordinator.groups["g"] is before
    script.wait(1_000)
    assert script.join("a", "foo") == "a@4 foo:0,1,2,3"


def test_a_protocol_that_a_classic_member_lists_twice_counts_once_after_a_downgrade() -> None:
    """It counted as two members that support the protocol, so that the group had no protocol in common."""
    script = Script(foo=4)
    member = mixed_group(script)
    assert script.classic_join("old", "foo", member=member, protocols=["range", "range"]) == f"{member}@2 range"
    assert script.leave("new") == "new@-1"
    assert script.classic_join("old", "foo", member=member) == f"{member}@3 range leads"


def test_a_silent_classic_member_goes_by_its_own_session() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    assert script.wait(9_999) == []
    assert script.wait(1) == [f"current {member} gone", f"target {member} gone", f"member {member} gone", "epoch 3"]


def test_a_classic_member_that_does_not_join_again_in_time_is_gone() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    script.join("new", "foo")
    for _ in range(12):
        assert script.classic_beat("old", member, 1) == "REBALANCE_IN_PROGRESS"
        script.beat("new", 2)
        script.wait(5_000)
    assert script.classic_beat("old", member, 1) == "UNKNOWN_MEMBER_ID"


def test_a_classic_member_that_was_thrown_out_cannot_come_back_with_what_it_had() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    script.wait(10_000)
    assert script.classic_join("old", "foo", member=member, owned={"foo": [0, 1]}) == "UNKNOWN_MEMBER_ID"
    assert script.classic_join("old", "foo", member=member) == f"{member}@4 range", "with nothing it is like any other"


def test_a_classic_member_that_does_not_sync_in_time_is_gone() -> None:
    script = Script(foo=4)
    member = classic_group(script)
    script.join("new", "foo")
    script.classic_join("old", "foo", member=member)
    for _ in range(12):
        assert script.classic_beat("old", member, 2) == "NONE"
        script.beat("new", 2)
        script.wait(5_000)
    assert script.classic_beat("old", member, 2) == "UNKNOWN_MEMBER_ID"


def test_a_static_member_changes_its_protocol_up_and_down() -> None:
    script = Script(foo=4)
    assert script.classic_join("old", "foo", instance="i") == "waits"
    script.wait(3_000)
    assert script.take("old") == "i-made-1@1 range leads"
    script.classic_sync("old", "i-made-1", 1, {"i-made-1": {"foo": [0, 1, 2, 3]}})
    assert script.join("new", "foo", instance="i") == "new@1 foo:0,1,2,3", "it takes the place of its former self"
    assert script.written[-8:] == [
        "current i-made-1 gone",
        "target i-made-1 gone",
        "member i-made-1 gone",
        "member new foo instance=i classic",
        "target new foo:0,1,2,3",
        "current new 0->0 stable foo:0,1,2,3",
        "member new foo instance=i",
        "current new 0->1 stable foo:0,1,2,3",
    ]
    assert script.classic_join("old", "foo", instance="i") == "made-2@1 range"
    assert script.written[-1] == "classic @1 made-2(foo:0,1,2,3)"
    assert script.beat("new", 1, instance="i") == "GROUP_ID_NOT_FOUND"
    assert script.classic_sync("old", "made-2", 1) == "foo:0,1,2,3"
    assert script.classic_beat("old", "made-2", 1) == "NONE"


def test_a_group_that_goes_down_while_a_member_has_not_let_go_is_rebalanced() -> None:
    """The targets were handed out as they stood, and with them what another member still had."""
    script = Script(foo=4)
    member = classic_group(script)
    script.join("new", "foo", instance="i")
    owned = {"foo": [0, 1, 2, 3]}
    assert script.classic_join("old", "foo", member=member, owned=owned) == f"{member}@1 range"
    assert script.classic_join("b", "foo", instance="i") == "made-2@0 range"
    assert script.classic_sync("b", "made-2", 0) == "ILLEGAL_GENERATION"
    assert script.classic_join("b", "foo", member="made-2", instance="i") == "waits"
    assert script.classic_join("old", "foo", member=member, owned=owned) == f"{member}@3 range leads"
    assert script.take("b") == "made-2@3 range"


def test_a_static_member_that_takes_a_group_up_in_the_middle_of_a_rebalance_has_it_divided_anew() -> None:
    """Nothing about the member had changed, so the group was left with what it had before the rebalance."""
    script = Script(foo=4)
    script.classic_join("old", "foo", instance="i")
    assert script.classic_join("gone", "foo", instance="j") == "waits"
    script.wait(6_000)
    assert script.take("old") == "i-made-1@1 range leads"
    script.classic_sync("old", "i-made-1", 1, {"i-made-1": {"foo": [0, 1]}, "j-made-2": {"foo": [2, 3]}})
    script.classic_leave("gone", "", instance="j")
    assert script.join("new", "foo", instance="i") == "new@2 foo:0,1,2,3"


def test_an_empty_group_changes_its_kind_without_ceremony() -> None:
    script = Script(foo=4)
    script.join("a", "foo")
    script.leave("a")
    assert script.classic_join("old", "foo") == "MEMBER_ID_REQUIRED old-made-1"
    assert script.written == ["target-epoch gone", "partition-metadata gone", "epoch gone", "classic @0"]
    script.restart()
    assert script.join("b", "foo") == "b@2 foo:0,1,2,3"
    assert script.written[0] == "classic gone"


def test_a_new_classic_group_whose_only_member_left_counts_as_empty() -> None:
    """It still waits for more members; the upgrade broke an invariant, and the coordinator went offline."""
    script = Script(foo=4)
    member = script.classic_join("old", "foo").removeprefix("MEMBER_ID_REQUIRED ")
    assert script.classic_join("old", "foo", member=member) == "waits"
    script.classic_leave("leaving", member)
    assert script.coordinator.groups["g"].state_name == "PreparingRebalance"
    assert script.join("new", "foo") == "new@2 foo:0,1,2,3"
    script.wait(10_000)
    assert script.beat("new", 2) == "new@2"


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_no_group_goes_up_where_the_policy_forbids_it(policy: MigrationPolicy) -> None:
    script = Script(foo=4, setting=ConsumerGroupSetting(migration=policy))
    member = classic_group(script)
    assert script.join("new", "foo") == "GROUP_ID_NOT_FOUND"
    assert script.classic_beat("old", member, 1) == "NONE"


def test_no_group_goes_down_where_the_policy_forbids_it() -> None:
    script = Script(foo=4, setting=ConsumerGroupSetting(migration=MigrationPolicy.UPGRADE))
    member = mixed_group(script)
    script.wait(1_000)
    script.leave("new")
    assert script.written == ["current new gone", "target new gone", "member new gone", "epoch 3"]
    assert script.classic_beat("old", member, 2) == "NONE", "there is no new target before somebody joins"
    assert script.classic_join("old", "foo", member=member) == f"{member}@3 range"
    assert script.classic_sync("old", member, 3) == "foo:0,1,2,3"


def test_no_classic_member_joins_where_migration_is_off() -> None:
    script = Script(foo=4, setting=ConsumerGroupSetting(migration=MigrationPolicy.DISABLED))
    script.join("a", "foo")
    assert script.classic_join("old", "foo") == "INCONSISTENT_GROUP_PROTOCOL"


def test_what_classic_members_are_refused_in_a_group_of_the_new_protocol() -> None:
    script = Script(foo=4)
    member = mixed_group(script)
    assert script.classic_join("x", "foo", protocols=["sticky"]) == "INCONSISTENT_GROUP_PROTOCOL"
    assert script.classic_sync("new", "new", 2) == "UNKNOWN_MEMBER_ID", "it speaks the new protocol"
    assert script.classic_beat("x", "x", 2) == "UNKNOWN_MEMBER_ID"
    assert script.classic_beat("old", member, 1) == "ILLEGAL_GENERATION"
    assert script.classic_leave("x", "x") == "UNKNOWN_MEMBER_ID"
    assert script.classic_leave("old", member) == "NONE"
    assert script.written == [f"current {member} gone", f"target {member} gone", f"member {member} gone", "epoch 3"]


def test_kafka_writes_the_same_when_a_group_goes_up_and_down() -> None:
    """What Apache Kafka 4.3.1 wrote when confluent-kafka did the same; only the ids are others."""
    script = Script(page_views=2)
    old = script.classic_join("old", "page_views").removeprefix("MEMBER_ID_REQUIRED ")
    script.classic_join("old", "page_views", member=old)
    script.wait(3_000)
    script.classic_sync("old", old, 1, {old: {"page_views": [0, 1]}})
    script.join("new", "page_views")
    script.classic_join("old", "page_views", member=old)
    script.beat("new", 2)
    script.leave("new")
    script.classic_join("old", "page_views", member=old)
    script.classic_sync("old", old, 3, {old: {"page_views": [0, 1]}})
    rows = json.loads((Path(__file__).parent / "kafka_records.json").read_text())
    records = [decode_record(bytes.fromhex(key), bytes.fromhex(value) if value else None) for key, value in rows]
    kafka = [
        script.show(record).replace("?:", "page_views:")
        for record in records
        if "mixed" in (getattr(record.key, "group", None), getattr(record.key, "group_id", None))
    ]
    kafka = [line.replace("old-bab75b98-20b9-407e-ae00-621f8cb8fbc2", old) for line in kafka]
    kafka = [line.replace("a0BsalYeRtqj9fqqAPp2GQ", "new") for line in kafka]
    ours = [script.show(decode_record(*encoded)) for encoded in script.log]
    assert ours[: len(kafka) - 1] == kafka[:-1]
    assert len(ours) == len(kafka)
