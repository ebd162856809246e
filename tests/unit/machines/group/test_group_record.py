"""The records of `__consumer_offsets`: Kafka's own bytes, read and written again.

`kafka_records.json` is the whole of `__consumer_offsets` of Apache Kafka 4.3.1 after confluent-kafka worked in it: a
static and a dynamic classic member, a consumer group, one that subscribes by regular expression, one in which
a classic and a new member met, each with a commit, and the deletion of a group.
"""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataMember, GroupMetadataValue
from tailrace.machines.group.record.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataPartition,
    ConsumerGroupPartitionMetadataTopic,
    ConsumerGroupPartitionMetadataValue,
    CurrentAssignmentTopicPartitions,
)
from tailrace.machines.group.record.format import RECORD_TYPES, decode_record, encode_record
from tailrace.machines.group.record.offset import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tailrace.machines.log_record import CorruptRecord, Record, UnknownRecord
from tailrace.machines.log_replay import newest
from tailrace.protocol import codec, reference
from tailrace.protocol.message import Message

KAFKA_RECORDS = [
    (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    for key, value in json.loads((Path(__file__).parent / "kafka_records.json").read_text())
]
TOPIC_ID = UUID("00000000-0000-4000-8000-000000000007")


def test_every_record_that_kafka_wrote_is_read_and_written_the_same() -> None:
    for key, value in KAFKA_RECORDS:
        assert encode_record(decode_record(key, value)) == (key, value)
    assert len(KAFKA_RECORDS) == 59


def test_kafka_wrote_all_types_but_the_legacy_one() -> None:
    assert {int.from_bytes(key[:2]) for key, _ in KAFKA_RECORDS} == RECORD_TYPES.keys() - {0}


def test_a_generation_reads_as_its_members_meant_it() -> None:
    records = [decode_record(key, value) for key, value in KAFKA_RECORDS]
    first, second = (r.value for r in records if r.key == GroupMetadataKey(group="classic-group"))
    assert isinstance(first, GroupMetadataValue)
    assert (first.generation, first.protocol_type, first.leader, first.members) == (0, "", None, [])
    assert isinstance(second, GroupMetadataValue)
    (member,) = second.members
    assert (second.generation, second.protocol_type, second.protocol) == (1, "consumer", "range")
    assert second.leader == member.member_id
    assert (member.group_instance_id, member.client_id, member.client_host) == ("i1", "golden", "/127.0.0.1")
    assert (member.rebalance_timeout, member.session_timeout) == (300_000, 45_000)


# The bytes of these were put together by hand from the definitions of the messages.
HAND_MADE = [
    (
        Record(
            LegacyOffsetCommitKey(group="g", topic="t", partition=3),
            LegacyOffsetCommitValue(offset=5, metadata="m", commit_timestamp=9),
        ),
        "0000 0001 67 0001 74 00000003",
        "0000 0000000000000005 0001 6d 0000000000000009",
    ),
    (
        Record(
            OffsetCommitKey(group="g", topic="t", partition=3),
            OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=11),
        ),
        "0001 0001 67 0001 74 00000003",
        "0001 0000000000000005 0001 6d 0000000000000009 000000000000000b",
    ),
    (
        Record(
            OffsetCommitKey(group="g", topic="t", partition=3),
            OffsetCommitValue(offset=5, leader_epoch=2, metadata="", commit_timestamp=9),
        ),
        "0001 0001 67 0001 74 00000003",
        "0004 0000000000000005 00000002 01 0000000000000009 00",
    ),
    (
        Record(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="connect",
                generation=7,
                protocol="sessioned",
                leader="a",
                current_state_timestamp=9,
                members=[
                    GroupMetadataMember(
                        member_id="a",
                        group_instance_id=None,
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=6,
                        session_timeout=4,
                        subscription=b"s",
                        assignment=b"",
                    )
                ],
            ),
        ),
        "0002 0001 67",
        "0003 0007 636f6e6e656374 00000007 0009 73657373696f6e6564 0001 61 0000000000000009 00000001"
        "0001 61 ffff 0001 63 0002 2f68 00000006 00000004 00000001 73 00000000",
    ),
    (
        Record(
            ConsumerGroupPartitionMetadataKey(group_id="g"),
            ConsumerGroupPartitionMetadataValue(
                topics=[
                    ConsumerGroupPartitionMetadataTopic(
                        topic_id=TOPIC_ID,
                        topic_name="t",
                        num_partitions=1,
                        partition_metadata=[ConsumerGroupPartitionMetadataPartition(partition=0, racks=["r"])],
                    )
                ]
            ),
        ),
        "0004 0001 67",
        "0000 02 00000000000040008000000000000007 02 74 00000001 02 00000000 02 02 72 00 00 00",
    ),
    (
        Record(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            ConsumerGroupMemberMetadataValue(client_id="c", client_host="/h", classic_member_metadata=None),
        ),
        "0005 0001 67 0001 6d",
        "0000 01 01 02 63 03 2f68 01 01 ffffffff 01 01 00 01 00",
    ),
    (
        Record(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=6)),
        ),
        "0005 0001 67 0001 6d",
        "0000 01 01 01 01 01 01 ffffffff 01 01 00 07 01 00000006 01 00",
    ),
    (
        Record(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=1,
                assigned_partitions=[
                    CurrentAssignmentTopicPartitions(topic_id=TOPIC_ID, partitions=[1], assignment_epochs=[4])
                ],
                partitions_pending_revocation=[
                    CurrentAssignmentTopicPartitions(topic_id=TOPIC_ID, partitions=[2], assignment_epochs=None)
                ],
            ),
        ),
        "0008 0001 67 0001 6d",
        "0000 00000004 00000003 01 02 00000000000040008000000000000007 02 00000001 01 00 05 02 00000004"
        "02 00000000000040008000000000000007 02 00000002 01 00 01 00 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), HAND_MADE, ids=lambda part: "")
def test_bytes_by_hand(record: Record, key: str, value: str) -> None:
    if isinstance(record.value, ConsumerGroupMemberMetadataValue):
        # In these two the names that may be null are empty, so that every byte is seen.
        record.value.instance_id = record.value.rack_id = record.value.server_assignor = ""
        record.value.subscribed_topic_regex = ""
    assert encode_record(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


def test_an_offset_in_every_version_of_its_record() -> None:
    key = encode_record(Record(OffsetCommitKey(group="g", topic="t", partition=3), None))[0]
    offset = "0000000000000005"
    seen = [
        decode_record(key, bytes.fromhex(text)).value
        for text in (
            f"0000 {offset} 0001 6d 0000000000000009",
            f"0001 {offset} 0001 6d 0000000000000009 000000000000000b",
            f"0002 {offset} 0001 6d 0000000000000009",
            f"0003 {offset} 00000002 0001 6d 0000000000000009",
            f"0004 {offset} 00000002 02 6d 0000000000000009 01 00 10 {TOPIC_ID.hex}",
        )
    ]
    plain = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    epoch = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, leader_epoch=2)
    expiring = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=11)
    named = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, leader_epoch=2, topic_id=TOPIC_ID)
    assert seen == [plain, expiring, plain, epoch, named]


@pytest.mark.parametrize("types", RECORD_TYPES.values(), ids=lambda types: types[0].__name__)
def test_both_codecs_agree_on_every_version(types: tuple[type[Message], type[Message]]) -> None:
    for cls in types:
        for version in cls.SCHEMA.versions:
            data = reference.encode(cls(), version)
            assert codec.encode(cls(), version) == data
            assert codec.decode(cls, data, version) == reference.decode(cls, data, version) == (cls(), len(data))


def test_what_a_newer_broker_wrote_is_unknown_and_not_corrupt() -> None:
    with pytest.raises(UnknownRecord, match="record type 99"):
        decode_record(bytes.fromhex("0063 0001 67"), None)
    with pytest.raises(UnknownRecord, match="version 5 of OffsetCommitValue"):
        decode_record(bytes.fromhex("0001 0001 67 0001 74 00000003"), bytes.fromhex("0005 00"))


def test_every_prefix_of_every_record_is_refused() -> None:
    for key, value in KAFKA_RECORDS:
        for size in range(len(key)):
            with pytest.raises(CorruptRecord):
                decode_record(key[:size], value)
        for size in range(len(value or b"")):
            with pytest.raises(CorruptRecord):
                decode_record(key, (value or b"")[:size])


def test_of_records_in_a_row_the_last_of_each_key_counts_where_it_stood() -> None:
    row = [(b"a", 1), (b"b", 2), (b"a", None), (b"c", 3), (b"b", 4)]
    assert list(newest(row).items()) == [(b"a", None), (b"c", 3), (b"b", 4)]
    assert newest([]) == {}
