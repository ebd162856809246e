"""Offsets of groups: committed, read, deleted, expired, and read again after a restart."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.machines.group.script import START_MS, Script, answered

from tailrace.base.sentinel import INT64_MAX
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.classic import GroupMetadataKey
from tailrace.machines.group.record.offset import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestGroup,
)

DAY_MS = 24 * 3600 * 1000
NOTHING = (-1, -1, "")
TOPIC_ID = UUID(int=7)
READS_T = (("range", bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 ffffffff ffff")),)


def refusal(script: Script, **how: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        script.commit(5, **how)
    return caught.value.code


def delete_offset(script: Script, topic: str = "t", partition: int = 0) -> ErrorCode:
    asked = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
    request = OffsetDeleteRequest(group_id="g", topics=[asked])
    script.carry_out(script.machine.decide_offset_delete("delete", request))
    return ErrorCode(script.take("delete").topics[0].partitions[0].error_code)


def delete_group(script: Script, group_id: str = "g") -> ErrorCode:
    script.carry_out(script.machine.decide_delete("delete", [group_id]))
    return ErrorCode(script.take("delete").results[0].error_code)


def test_a_consumer_without_a_group_commits_and_reads() -> None:
    script = Script()
    assert script.fetch() == NOTHING
    assert script.commit(42, leader_epoch=3, metadata="note", in_topic={"topic_id": TOPIC_ID}) is ErrorCode.NONE
    assert script.new_records() == [
        Record(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=42, leader_epoch=3, metadata="note", commit_timestamp=START_MS, topic_id=TOPIC_ID),
        )
    ]
    assert script.fetch() == (42, 3, "note")
    script.restart()
    assert script.fetch() == (42, 3, "note")
    (listed,) = script.machine.list([], [])
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "",
        "Empty",
        "classic",
    )


def test_members_commit_for_their_generation_only() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.commit(5, member_id=a, generation=1) is ErrorCode.NONE
    assert refusal(script, member_id=a, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id=a, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id="c-9", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(script, member_id=a, generation=1, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    # Whoever assigns its partitions itself must not disturb a group that lives.
    assert refusal(script) is ErrorCode.UNKNOWN_MEMBER_ID
    # A member may commit what it has done before it joins again, but not while the work is being divided.
    assert script.join("a", a) is None
    assert script.commit(6, member_id=b, generation=1) is ErrorCode.NONE
    assert answered(script.join("b", b)).generation_id == 2
    assert refusal(script, member_id=b, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(script, member_id=b, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert script.fetch() == (6, -1, "")


def test_a_commit_to_a_group_that_does_not_exist() -> None:
    script = Script()
    assert refusal(script, member_id="m", generation=1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id="m", generation=1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert script.log == []


def test_a_commit_keeps_the_session_alive() -> None:
    script = Script()
    (a,) = script.stable("a")
    script.pass_time(9_000)
    script.commit(5, member_id=a, generation=1)
    script.pass_time(9_000)
    assert script.heartbeat(a, 1) is ErrorCode.NONE


def test_metadata_has_a_bound() -> None:
    script = Script(offsets=OffsetSetting(metadata_length_max=10))
    assert script.commit(5, metadata="x" * 10) is ErrorCode.NONE
    assert script.commit(6, metadata="x" * 11) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert script.fetch() == (5, -1, "x" * 10)


@pytest.mark.parametrize("offset", [-1, -2])
def test_an_offset_below_zero_is_stored(offset: int) -> None:
    """kafkajs commits -2 or -1 to recover from OFFSET_OUT_OF_RANGE, as Kafka allows. The commit was refused, and its
    group hung.
    """
    script = Script()
    assert script.commit(offset) is ErrorCode.NONE
    assert script.fetch()[0] == offset


def test_all_offsets_of_a_group() -> None:
    script = Script()
    script.commit(1)
    script.commit(2, partition=4)
    script.commit(3, topic="u")
    script.commit(9, group_id="other")
    found = script.machine.fetch_offsets(OffsetFetchRequestGroup(group_id="g", topics=None))
    assert [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in found.topics] == [
        ("t", [(0, 1), (4, 2)]),
        ("u", [(0, 3)]),
    ]
    assert script.machine.fetch_offsets(OffsetFetchRequestGroup(group_id="nobody", topics=None)).topics == []


def test_an_offset_of_an_earlier_topic_of_that_name_is_not_found() -> None:
    script = Script()
    script.commit(5, in_topic={"topic_id": TOPIC_ID})
    assert script.fetch(topic_id=TOPIC_ID) == (5, -1, "")
    assert script.fetch() == (5, -1, "")
    assert script.fetch(topic_id=UUID(int=8)) == NOTHING


def test_offsets_of_a_deleted_topic_go_with_it() -> None:
    script = Script()
    script.commit(5, in_topic={"topic_id": TOPIC_ID})
    script.commit(6, topic="u", in_topic={"topic_id": UUID(int=9)})
    script.new_records()
    script.carry_out(script.machine.on_topics_deleted([("t", TOPIC_ID), ("u", UUID(int=1))]))
    assert script.new_records() == [Record(OffsetCommitKey(group="g", topic="t", partition=0), None)]
    assert (script.fetch(), script.fetch("u")) == (NOTHING, (6, -1, ""))


# Delete.


def test_offsets_are_deleted_where_nobody_reads() -> None:
    script = Script()
    script.commit(5)
    script.commit(6, topic="u")
    (a,) = script.stable("a", protocols=READS_T)
    assert delete_offset(script) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(script, "u") is ErrorCode.NONE
    assert script.new_records() == [Record(OffsetCommitKey(group="g", topic="u", partition=0), None)]
    assert delete_offset(script, "u", 3) is ErrorCode.NONE
    assert script.new_records() == []
    script.leave((a, None))
    assert delete_offset(script) is ErrorCode.NONE
    assert script.fetch() == NOTHING


def test_offsets_of_a_group_that_is_not_of_consumers_are_deleted_when_it_is_empty() -> None:
    script = Script()
    script.commit(5)
    script.stable("a", protocol_type="connect")
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        delete_offset(script)
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        script.machine.decide_offset_delete("delete", OffsetDeleteRequest(group_id="nobody"))


def test_a_group_is_deleted_with_its_offsets() -> None:
    script = Script()
    (a,) = script.stable("a")
    script.commit(5, member_id=a, generation=1)
    assert delete_group(script) is ErrorCode.NON_EMPTY_GROUP
    script.leave((a, None))
    script.new_records()
    assert delete_group(script) is ErrorCode.NONE
    assert script.new_records() == [
        Record(OffsetCommitKey(group="g", topic="t", partition=0), None),
        Record(GroupMetadataKey(group="g"), None),
    ]
    assert (script.state(), script.fetch()) == ("Dead", NOTHING)
    assert delete_group(script) is ErrorCode.GROUP_ID_NOT_FOUND
    script.restart()
    assert script.machine.list([], []) == []


# Expiry.


def test_offsets_go_a_week_after_their_group_became_empty() -> None:
    script = Script()
    (a,) = script.stable("a")
    script.commit(5, member_id=a, generation=1)
    script.pass_time(9_000)
    script.leave((a, None))
    empty_since_ms = script.now_ms
    script.restart()
    script.pass_time(7 * DAY_MS - 600_000)
    script.now_ms = empty_since_ms + 7 * DAY_MS - 1
    script.expire()
    assert script.fetch() == (5, -1, "")
    script.now_ms += 1
    script.new_records()
    script.expire()
    assert script.new_records() == [
        Record(OffsetCommitKey(group="g", topic="t", partition=0), None),
        Record(GroupMetadataKey(group="g"), None),
    ]
    assert script.state() == "Dead"


def test_offsets_of_topics_that_a_living_group_no_longer_reads_go_a_week_after_their_commit() -> None:
    script = Script()
    script.commit(1)
    script.commit(2, topic="u")
    script.stable("a", protocols=READS_T, session_ms=1_000_000)
    script.now_ms = START_MS + 7 * DAY_MS
    script.expire()
    assert (script.fetch(), script.fetch("u"), script.state()) == ((1, -1, ""), NOTHING, "Stable")


def test_offsets_of_a_living_group_that_is_not_understood_stay() -> None:
    for protocol_type, protocols in (("connect", READS_T), ("consumer", (("range", b"?"),))):
        script = Script()
        script.commit(1)
        script.stable("a", protocol_type=protocol_type, protocols=protocols, session_ms=1_000_000)
        script.now_ms = START_MS + 70 * DAY_MS
        script.expire()
        assert script.fetch() == (1, -1, "")


def test_offsets_of_a_consumer_without_a_group_go_a_week_after_each_commit() -> None:
    script = Script()
    script.commit(1)
    script.now_ms += DAY_MS
    script.commit(2, partition=1)
    script.now_ms = START_MS + 7 * DAY_MS
    script.expire()
    assert (script.fetch(), script.fetch(partition=1)) == (NOTHING, (2, -1, ""))
    assert script.state() == "Empty"
    script.now_ms += DAY_MS
    script.expire()
    assert script.state() == "Dead"


def test_old_clients_say_themselves_how_long() -> None:
    script = Script()
    script.commit(1, version=4, retention_time_ms=5_000)
    assert script.new_records()[0].value == OffsetCommitValue(
        offset=1, commit_timestamp=START_MS, expire_timestamp=START_MS + 5_000
    )
    script.restart()
    script.now_ms += 4_999
    script.expire()
    assert script.fetch() == (1, -1, "")
    script.now_ms += 1
    script.expire()
    assert script.fetch() == NOTHING


def test_no_time_is_too_long_for_an_old_client() -> None:
    script = Script()
    script.commit(1, version=4, retention_time_ms=INT64_MAX)
    assert script.new_records()[0].value == OffsetCommitValue(
        offset=1, commit_timestamp=START_MS, expire_timestamp=INT64_MAX
    )
    script.restart()
    script.now_ms += 1000 * DAY_MS
    script.expire()
    assert script.fetch() == (1, -1, "")


def test_the_search_for_expired_offsets_goes_on_for_ever() -> None:
    script = Script(offsets=OffsetSetting(retention_ms=1_000_000, check_interval_ms=600_000))
    script.restart()
    script.commit(1)
    script.pass_time(1_199_999)
    assert script.fetch() == (1, -1, "")
    script.pass_time(1)
    assert script.fetch() == NOTHING


def test_a_group_that_somebody_is_about_to_join_stays() -> None:
    script = Script()
    script.join("a")
    script.expire()
    assert script.state() == "Empty"
    script.pass_time(10_000)
    script.expire()
    assert script.state() == "Dead"


def test_offsets_of_very_old_kafkas_are_read() -> None:
    script = Script()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    script.machine.replay(Record(key, LegacyOffsetCommitValue(offset=3, metadata="m", commit_timestamp=9)))
    assert script.fetch() == (3, -1, "m")
    script.machine.replay(Record(key, None))
    assert script.fetch() == NOTHING


# Groups seen from outside.


def test_groups_are_listed_by_state_and_type() -> None:
    script = Script()
    script.commit(1, group_id="simple")
    script.stable("a")

    def listed(states: list[str], types: list[str]) -> list[str]:
        return [group.group_id for group in script.machine.list(states, types)]

    assert listed([], []) == ["simple", "g"]
    assert listed([" stable "], []) == ["g"]
    assert listed(["EMPTY", "Stable"], ["classic"]) == ["simple", "g"]
    assert listed(["Dead"], []) == listed([], ["consumer"]) == listed([], ["nonsense"]) == []


def test_what_members_said_is_shown_while_they_agree() -> None:
    script = Script()
    (a,) = script.stable("a")
    (member,) = script.machine.describe("g", 6).members
    assert (member.member_metadata, member.member_assignment) == (b"sub", b"a")
    script.new_member("b")
    described = script.machine.describe("g", 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(m.member_id, m.member_metadata) for m in described.members] == [(a, b""), ("c-2", b"")]


def test_a_group_that_is_not_there() -> None:
    script = Script()
    old, new = script.machine.describe("x", 5), script.machine.describe("x", 6)
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    assert (new.group_state, new.error_code, new.error_message) == (
        "Dead",
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group x not found.",
    )


def test_a_name_as_long_as_the_protocol_allows_is_described() -> None:
    """The message that a group was not found quoted its name whole. With the longest name that made a reply which
    could not be written."""
    assert len(Script().machine.describe("x" * 32767, 6).error_message or "") < 2000
