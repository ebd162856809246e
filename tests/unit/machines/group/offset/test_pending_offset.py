"""Offsets that are committed in transactions: pending, then valid or dropped by the marker."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.machines.group.consumer.consumer_script import Script as ConsumerScript
from tests.unit.machines.group.offset.test_group_offset import DAY_MS, NOTHING, TOPIC_ID, delete_group, delete_offset
from tests.unit.machines.group.script import START_MS, Script

from tailrace.machines.group.group import Caller
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.offset import OffsetCommitKey, OffsetCommitValue
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import OffsetFetchRequestGroup
from tailrace.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
TOMBSTONE = Record(OffsetCommitKey(group="g", topic="t", partition=0), None)


def refusal(script: Script, **how: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        script.transactional_commit(5, **how)
    return caught.value.code


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_offset_counts_when_its_transaction_commits(is_commit: bool, restarts: bool) -> None:
    script = Script()
    script.commit(3)
    script.new_records()
    assert script.transactional_commit(7, metadata="note", in_topic={"topic_id": TOPIC_ID}) is ErrorCode.NONE
    assert script.new_records() == [
        Record(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=7, metadata="note", commit_timestamp=START_MS, topic_id=TOPIC_ID),
        )
    ]
    if restarts:
        script.restart()
    assert (script.fetch(), script.fetch_stable()) == ((3, -1, ""), UNSTABLE)
    script.end_transaction(1, is_commit=is_commit)
    if restarts:
        script.restart()
    expected = (7, -1, "note") if is_commit else (3, -1, "")
    assert (script.fetch(), script.fetch_stable()) == (expected, expected[0])


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    script = Script()
    script.transactional_commit(7, producer_id=1)
    script.transactional_commit(8, producer_id=2, partition=1)
    script.transactional_commit(9, producer_id=1, group_id="other")
    script.end_transaction(3, is_commit=True)
    assert (script.fetch(), script.fetch(partition=1)) == (NOTHING, NOTHING)
    script.end_transaction(1, is_commit=True)
    assert (script.fetch(), script.fetch(partition=1), script.fetch(group_id="other")) == (
        (7, -1, ""),
        NOTHING,
        (9, -1, ""),
    )
    assert (script.fetch_stable(), script.fetch_stable(partition=1)) == (7, UNSTABLE)
    script.end_transaction(2, is_commit=False)
    assert script.fetch_stable(partition=1) == -1


def test_the_last_of_several_commits_in_a_transaction_counts() -> None:
    script = Script()
    script.transactional_commit(7)
    script.transactional_commit(5)
    script.end_transaction(1, is_commit=True)
    assert script.fetch() == (5, -1, "")


@pytest.mark.parametrize("restarts", [False, True])
def test_of_two_commits_the_one_that_stands_last_in_the_log_counts(restarts: bool) -> None:
    script = Script()
    script.transactional_commit(7, producer_id=1)
    script.transactional_commit(8, producer_id=2)
    script.end_transaction(2, is_commit=True)
    script.end_transaction(1, is_commit=True)
    if restarts:
        script.restart()
    assert script.fetch() == (8, -1, "")
    script.transactional_commit(9, producer_id=1)
    script.commit(4)
    script.end_transaction(1, is_commit=True)
    if restarts:
        script.restart()
    assert script.fetch() == (4, -1, "")


def test_kip_447_all_offsets_of_a_group_with_one_that_is_not_stable() -> None:
    script = Script()
    script.commit(1)
    script.commit(2, partition=1)
    script.transactional_commit(7, partition=1)
    script.transactional_commit(7, partition=2)
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    (topic,) = script.machine.fetch_offsets(asked, require_stable=True).topics
    assert [(p.partition_index, p.committed_offset, p.error_code) for p in topic.partitions] == [
        (0, 1, ErrorCode.NONE),
        (1, -1, UNSTABLE),
    ]


# Who may.


def test_kip_447_members_commit_for_their_generation_only() -> None:
    script = Script()
    a, b = script.stable("a", "b")
    assert script.transactional_commit(5, member_id=a, generation=1) is ErrorCode.NONE
    assert refusal(script, member_id=a, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id=a, generation=-1) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id="c-9", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(script, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(script, member_id=a, generation=1, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    # A producer of before KIP-447 says nothing of members.
    assert script.transactional_commit(6) is ErrorCode.NONE
    # It is not told of a rebalance; it will be when its members join again.
    script.join("a", a)
    script.join("b", b)
    assert script.transactional_commit(6, member_id=b, generation=2) is ErrorCode.NONE
    assert refusal(script, member_id=b, generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    script = Script()
    script.join("a", instance_id="i")
    script.pass_time(10_000)
    a = script.take("a").member_id
    script.join("b", instance_id="i")
    assert refusal(script, member_id=a, generation=1, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_transaction_does_not_keep_a_session_alive() -> None:
    script = Script()
    (a,) = script.stable("a")
    script.pass_time(9_000)
    script.transactional_commit(5, member_id=a, generation=1)
    script.pass_time(9_000)
    assert script.heartbeat(a, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_to_a_group_that_does_not_exist() -> None:
    script = Script()
    assert refusal(script, member_id="m", generation=1, version=5) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(script, member_id="m", generation=1, version=6) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(script, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert script.log == []
    assert script.transactional_commit(5) is ErrorCode.NONE
    assert script.state() == "Empty"


def test_metadata_has_a_bound() -> None:
    script = Script(offsets=OffsetSetting(metadata_length_max=10))
    assert script.transactional_commit(5, metadata="x" * 10) is ErrorCode.NONE
    assert script.transactional_commit(6, metadata="x" * 11) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    script.end_transaction(1, is_commit=True)
    assert script.fetch() == (5, -1, "x" * 10)


def test_an_offset_below_zero_is_stored() -> None:
    """kafkajs commits -2 or -1 to recover from OFFSET_OUT_OF_RANGE, in transactions, too."""
    script = Script()
    assert script.transactional_commit(-2) is ErrorCode.NONE
    script.end_transaction(1, is_commit=True)
    assert script.fetch()[0] == -2


def commit_as_member(script: ConsumerScript, member: str, epoch: int, partition: int, version: int = 5) -> str:
    entry = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=5)
    topic = TxnOffsetCommitRequestTopic(name="foo", topic_id=script.topic_id("foo"), partitions=[entry])
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[topic],
    )
    try:
        caller = Caller("c", "/h", version)
        decision = script.coordinator.decide_transactional_commit(script.now_ms, "commit", caller, request)
    except ApiError as error:
        return error.code.name
    response = decision.replies[0].response
    assert isinstance(response, TxnOffsetCommitResponse)
    return ErrorCode(response.topics[0].partitions[0].error_code).name


def test_members_of_the_new_protocol_commit_in_their_epoch() -> None:
    script = ConsumerScript(foo=2)
    assert script.join("a", "foo") == "a@2 foo:0,1"
    assert commit_as_member(script, "a", 2, 0) == "NONE"
    assert commit_as_member(script, "a", 1, 0) == "ILLEGAL_GENERATION"
    assert commit_as_member(script, "a", 1, 0, version=6) == "STALE_MEMBER_EPOCH"
    assert commit_as_member(script, "a", 3, 0) == "ILLEGAL_GENERATION"
    assert commit_as_member(script, "a", 3, 0, version=6) == "STALE_MEMBER_EPOCH"
    assert commit_as_member(script, "b", 2, 0) == "UNKNOWN_MEMBER_ID"
    assert commit_as_member(script, "", -1, 0) == "NONE"
    # In an older epoch it may commit for what it has had since then.
    script.wait(1_000)
    script.join("b", "foo")
    assert script.beat("a", 2) == "a@2 foo:0"
    assert script.beat("a", 2, owned={"foo": [0]}) == "a@3"
    assert script.beat("b", 3) == "b@3 foo:1"
    assert commit_as_member(script, "a", 2, 0) == "NONE"
    assert commit_as_member(script, "a", 2, 1) == "ILLEGAL_GENERATION"
    assert commit_as_member(script, "a", 2, 1, version=6) == "STALE_MEMBER_EPOCH"


# Deletion and expiry.


def test_a_deleted_offset_does_not_come_back_with_the_marker() -> None:
    script = Script()
    script.transactional_commit(7)
    script.transactional_commit(8, partition=1)
    script.new_records()
    assert delete_offset(script) is ErrorCode.NONE
    assert script.new_records() == [TOMBSTONE]
    assert script.fetch_stable() == -1
    script.end_transaction(1, is_commit=True)
    assert (script.fetch(), script.fetch(partition=1)) == (NOTHING, (8, -1, ""))


def test_a_group_is_deleted_with_what_is_pending() -> None:
    script = Script()
    script.commit(1)
    script.transactional_commit(7)
    script.transactional_commit(7, topic="u")
    script.new_records()
    assert delete_group(script) is ErrorCode.NONE
    assert script.new_records()[:2] == [TOMBSTONE, Record(OffsetCommitKey(group="g", topic="u", partition=0), None)]
    script.end_transaction(1, is_commit=True)
    script.restart()
    assert (script.fetch(), script.fetch("u"), script.state()) == (NOTHING, NOTHING, "Dead")


def test_pending_offsets_of_a_deleted_topic_go_with_it() -> None:
    script = Script()
    script.commit(1, in_topic={"topic_id": TOPIC_ID})
    script.transactional_commit(7, in_topic={"topic_id": TOPIC_ID})
    script.transactional_commit(8, partition=1, in_topic={"topic_id": UUID(int=8)})
    script.new_records()
    script.carry_out(script.machine.on_topics_deleted([("t", TOPIC_ID)]))
    assert script.new_records() == [TOMBSTONE]
    script.end_transaction(1, is_commit=True)
    assert (script.fetch(), script.fetch(partition=1)) == (NOTHING, (8, -1, ""))


def test_what_a_transaction_is_about_to_change_does_not_expire() -> None:
    script = Script()
    script.commit(1)
    script.commit(2, partition=1)
    script.transactional_commit(7)
    script.now_ms += 8 * DAY_MS
    script.expire()
    assert (script.fetch(), script.fetch(partition=1), script.state()) == ((1, -1, ""), NOTHING, "Empty")
    script.end_transaction(1, is_commit=False)
    script.expire()
    assert (script.fetch(), script.state()) == (NOTHING, "Dead")


def test_a_group_with_nothing_but_pending_offsets_stays() -> None:
    script = Script()
    script.transactional_commit(7)
    script.now_ms += 8 * DAY_MS
    script.expire()
    assert script.state() == "Empty"
    script.end_transaction(1, is_commit=True)
    assert script.fetch() == (7, -1, "")
    # Its time counts from the commit, as everybody's.
    script.expire()
    assert (script.fetch(), script.state()) == (NOTHING, "Dead")
