"""What Apache Kafka left in `__consumer_offsets`, replayed; see `test_group_record` for what happened there."""

import json
from pathlib import Path

from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.format import decode_record
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import HeartbeatRequest, HeartbeatResponse, SyncGroupRequest, SyncGroupResponse
from tailrace.protocol.messages.group_offset import OffsetFetchRequestGroup

NOW_MS = 1_794_730_900_000


def replayed() -> GroupCoordinator:
    machine = GroupCoordinator(ClassicGroupSetting(), OffsetSetting(), lambda: "uuid")
    for key, value in json.loads((Path(__file__).parent / "kafka_records.json").read_text()):
        machine.replay(decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value)))
    return machine


def test_all_groups_are_there_in_their_kinds_and_states() -> None:
    listed = {group.group_id: (group.group_type, group.group_state) for group in replayed().list([], [])}
    assert listed == {
        "classic-group": ("classic", "Stable"),
        "consumer-group": ("consumer", "Empty"),
        "regex-group": ("consumer", "Empty"),
        "mixed": ("classic", "Empty"),
    }


def test_offsets_are_there_but_for_the_group_that_was_deleted() -> None:
    machine = replayed()
    for group_id, expected in (
        ("classic-group", 42),
        ("consumer-group", 42),
        ("regex-group", 42),
        ("plain-group", None),
    ):
        found = machine.fetch_offsets(OffsetFetchRequestGroup(group_id=group_id, topics=None)).topics
        offsets = [
            (topic.name, part.partition_index, part.committed_offset) for topic in found for part in topic.partitions
        ]
        assert offsets == ([("page_views", 1, expected)] if expected else [])


def test_the_static_member_goes_on_where_kafka_left_it() -> None:
    machine = replayed()
    decision = machine.on_loaded(NOW_MS)
    (member,) = machine.describe("classic-group", 6).members
    session = ("classic-session", "classic-group", member.member_id)
    assert [timer.at_ms for timer in decision.timers if timer.key == session] == [NOW_MS + 45_000]
    beat = HeartbeatRequest(
        group_id="classic-group", generation_id=1, member_id=member.member_id, group_instance_id="i1"
    )
    (reply,) = machine.decide_heartbeat(NOW_MS, "beat", beat).replies
    assert isinstance(reply.response, HeartbeatResponse)
    assert reply.response.error_code == ErrorCode.NONE
    sync = SyncGroupRequest(group_id="classic-group", generation_id=1, member_id=member.member_id)
    (reply,) = machine.decide_sync(NOW_MS, "sync", sync).replies
    assert isinstance(reply.response, SyncGroupResponse)
    assert b"page_views" in reply.response.assignment
