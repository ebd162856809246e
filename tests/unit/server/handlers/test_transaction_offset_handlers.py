"""Offsets of transactions over real frames, through restarts.

Most of these write markers themselves, and nobody asks a coordinator whether there is a transaction.
"""

import asyncio
from functools import partial
from uuid import UUID

import pytest
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.member import coordinator as group_coordinator
from tests.unit.server.handlers.member import enter, fetch_old
from tests.unit.server.handlers.peer import Peer, peer
from tests.unit.server.handlers.sensible import commit
from tests.unit.server.handlers.sensible_transaction import transactional_commit

from tailrace.machines.log_replay import TransactionEnd
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.records.record import read_batches, read_records
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, partition_for

PARTITION_COUNT = 3
coordinator = partial(group_coordinator, transaction_partition_verification_enable="false")
PRODUCER = 7


async def commit_in_transaction(client: Peer, topic_id: UUID, offset: int, *, epoch: int = 0, group: str = "g") -> int:
    request = transactional_commit(group, "t", topic_id, 4)
    request.producer_epoch = epoch
    request.topics[0].partitions[0].committed_offset = offset
    return int((await client.ask(request, 4)).topics[0].partitions[0].error_code)


def end(client: Peer, *, is_commit: bool, epoch: int = 0, version: int = 1) -> None:
    """Write the marker for the offsets of group g."""
    index = partition_for("g", PARTITION_COUNT)
    marker = TransactionMarker(PRODUCER, epoch, 0, version, is_commit)
    where = client.broker.replicas.get(OFFSETS_TOPIC, index)
    client.broker.groups.end_transaction(
        index, TransactionEnd(PRODUCER, is_commit), lambda: where.append_marker(marker, client.machine.clock.time_ms)
    )


async def committed(client: Peer, *, require_stable: bool = False) -> int:
    """The offset of group g, or the error below zero."""
    request = fetch_old()
    request.require_stable = require_stable
    found = (await client.ask(request, 7)).topics[0].partitions[0]
    return -int(found.error_code) if found.error_code else int(found.committed_offset)


UNSTABLE = -int(ErrorCode.UNSTABLE_OFFSET_COMMIT)


async def test_offsets_are_committed_in_every_older_version() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        for version in range(5):
            answer = await client.ask(transactional_commit("g", "t", topic_id, version), version)
            assert answer.topics[0].partitions[0].error_code == 0
        assert await committed(client) == -1
        end(client, is_commit=True)
        assert await committed(client) == 1


async def test_an_offset_counts_once_its_transaction_commits() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        assert await commit_in_transaction(client, topic_id, 5) == 0
        assert (await committed(client), await committed(client, require_stable=True)) == (1, UNSTABLE)
        end(client, is_commit=False)
        assert (await committed(client), await committed(client, require_stable=True)) == (1, 1)
        assert await commit_in_transaction(client, topic_id, 6) == 0
        assert await commit_in_transaction(client, topic_id, 7) == 0, "the second is no repetition of the first"
        end(client, is_commit=True)
        assert (await committed(client), await committed(client, require_stable=True)) == (7, 7)


async def test_a_commit_in_a_transaction_whose_client_has_left_is_refused() -> None:
    """It may be late, and would replace what the client has put into the transaction since."""
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        assert await commit_in_transaction(client, topic_id, 19) == 0
        client.line.is_abandoned = True
        assert await commit_in_transaction(client, topic_id, 5) == ErrorCode.REQUEST_TIMED_OUT
        end(client, is_commit=True)
        assert await committed(client) == 19


@pytest.mark.parametrize("piece_bytes", ["200", "5242880"], ids=["in pieces", "at once"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_a_restart_finds_what_is_pending(is_killed: bool, piece_bytes: str) -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        for offset in range(20):
            await commit_in_transaction(client, topic_id, offset)
            end(client, is_commit=offset % 3 == 0)
        await commit_in_transaction(client, topic_id, 77)
        if is_killed:
            await machine.kill(client.broker)
    async with coordinator(machine, offsets_load_buffer_size=piece_bytes) as client:
        assert (await committed(client), await committed(client, require_stable=True)) == (18, UNSTABLE)
        end(client, is_commit=True)
        assert (await committed(client), await committed(client, require_stable=True)) == (77, 77)


async def test_a_log_that_was_compacted_says_the_same() -> None:
    """Compaction takes records of ended transactions and, later, markers; those of open ones it leaves alone."""
    machine = BrokerInMemory()
    async with coordinator(machine, log_cleaner_backoff_ms="3600000") as client:
        topic_id = await client.create("t", 1)
        log = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("g", PARTITION_COUNT)).log
        for offset in range(9):
            await commit_in_transaction(client, topic_id, offset)
            end(client, is_commit=offset != 8)
            if offset == 4:
                await client.ask(commit("g", "t", topic_id, 9), 9)
        log.roll()
        await commit_in_transaction(client, topic_id, 77)
        log.roll()
        await client.broker.care.flush()
        before = log.size_bytes
        client.broker.compaction.start_due()
        await client.broker.compaction.settled()
        assert log.size_bytes < before
        await machine.kill(client.broker)
    async with coordinator(machine, log_cleaner_backoff_ms="3600000") as client:
        assert (await committed(client), await committed(client, require_stable=True)) == (7, UNSTABLE)
        end(client, is_commit=False)
        assert await committed(client, require_stable=True) == 7


async def test_an_old_epoch_of_a_producer_is_fenced() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        assert await commit_in_transaction(client, topic_id, 5, epoch=1) == 0
        assert await commit_in_transaction(client, topic_id, 6, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(ApiError, match="INVALID_PRODUCER_EPOCH"):
            end(client, is_commit=True, epoch=0)
        assert await committed(client, require_stable=True) == UNSTABLE
        end(client, is_commit=True, epoch=1)
        assert await committed(client) == 5


async def test_what_cannot_be_committed_is_told_by_partition() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=metadata)
            for index, metadata in ((0, None), (1, ""), (-1, ""))
        ]
        topics = [
            TxnOffsetCommitRequestTopic(name="t", partitions=partitions),
            TxnOffsetCommitRequestTopic(name="absent", partitions=partitions[:1]),
        ]
        request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=PRODUCER, topics=topics)
        answer = await client.ask(request, 4)
        told = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == {("t", 0): 0, ("t", 1): missing, ("t", -1): missing, ("absent", 0): missing}
        request.topics = [
            TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions[1:2]),
            TxnOffsetCommitRequestTopic(topic_id=UUID(int=5), partitions=partitions[:1]),
        ]
        answer = await client.ask(request, 6)
        told = {(t.topic_id, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        assert told == {(topic_id, 1): missing, (UUID(int=5), 0): ErrorCode.UNKNOWN_TOPIC_ID}


async def test_members_are_checked() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        member_id = await enter(client)
        request = transactional_commit("g", "t", topic_id, 5)
        request.member_id, request.generation_id_or_member_epoch = member_id, 7
        answer = await client.ask(request, 4)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        request.generation_id_or_member_epoch = 1
        assert (await client.ask(request, 4)).topics[0].partitions[0].error_code == 0


async def test_a_coordinator_that_loads_is_not_ready_for_markers() -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        await commit_in_transaction(client, topic_id, 5)
    async with peer(machine, transaction_partition_verification_enable="false") as client:
        assert await commit_in_transaction(client, topic_id, 5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        old = await client.ask(transactional_commit("g", "t", topic_id, 1), 1)
        assert old.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
            end(client, is_commit=True)
        await client.broker.groups.loaded()
        end(client, is_commit=True)
        assert await committed(client) == 5


async def test_the_log_holds_what_kafka_would_write() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await commit_in_transaction(client, topic_id, 5, epoch=3)
        end(client, is_commit=True, epoch=3)
        log = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("g", PARTITION_COUNT)).log
        data = log.read(0, 1 << 20, log.log_end_offset, True)
        (first, offsets), (second, marker) = read_batches(data)
        assert (offsets.producer_id, offsets.producer_epoch, offsets.base_sequence) == (PRODUCER, 3, -1)
        assert (offsets.is_transactional, offsets.is_control) == (True, False)
        (record,) = read_records(data, first)
        assert (record.key or b"")[:2] == b"\0\1"
        assert (marker.producer_id, marker.producer_epoch, marker.is_control) == (PRODUCER, 3, True)
        (record,) = read_records(data, second)
        assert (record.key, record.value) == (bytes([0, 0, 0, 1]), bytes(6))


# --- with a coordinator of transactions


async def begin(client: Peer, name: str = "x") -> InitProducerIdResponse:
    await client.broker.transactions.make_topic()
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    reply = await client.ask(request, 5)
    assert reply.error_code == 0
    return reply  # type: ignore[no-any-return]


async def ask_to_commit(client: Peer, topic_id: UUID, producer: InitProducerIdResponse, version: int) -> ErrorCode:
    request = transactional_commit("g", "t", topic_id, version, producer_id=producer.producer_id)
    request.producer_epoch = producer.producer_epoch
    return ErrorCode((await client.ask(request, version)).topics[0].partitions[0].error_code)


async def end_by_coordinator(client: Peer, producer: InitProducerIdResponse, version: int, *, is_commit: bool) -> None:
    request = EndTxnRequest(
        transactional_id="x",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=is_commit,
    )
    assert (await client.ask(request, version)).error_code == 0
    if version >= 5:
        producer.producer_epoch += 1


@pytest.mark.parametrize("is_commit", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("version", range(7))
async def test_a_transaction_takes_offsets_with_it(version: int, is_commit: bool) -> None:
    async with group_coordinator() as client:
        topic_id = await client.create("t", 1)
        producer = await begin(client)
        for _ in range(2):
            if version < 5:
                offsets = AddOffsetsToTxnRequest(
                    transactional_id="x",
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    group_id="g",
                )
                assert (await client.ask(offsets, 3)).error_code == 0
            assert await ask_to_commit(client, topic_id, producer, version) is ErrorCode.NONE
            assert await committed(client, require_stable=True) == UNSTABLE
            await end_by_coordinator(client, producer, 5 if version >= 5 else 3, is_commit=is_commit)
            await wait_until_stable(client)
            assert await committed(client) == (1 if is_commit else -1)


async def wait_until_stable(client: Peer) -> None:
    """The coordinator answers before its markers are written."""
    async with asyncio.timeout(60):
        while await committed(client, require_stable=True) == UNSTABLE:
            await asyncio.sleep(0)


async def test_offsets_of_no_transaction_are_refused() -> None:
    async with group_coordinator() as client:
        topic_id = await client.create("t", 1)
        producer = await begin(client)
        assert await ask_to_commit(client, topic_id, producer, 3) is ErrorCode.INVALID_TXN_STATE
        assert await ask_to_commit(client, topic_id, producer, 4) is ErrorCode.TRANSACTION_ABORTABLE
        producer.producer_epoch += 1
        assert await ask_to_commit(client, topic_id, producer, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
        producer.producer_id += 99
        assert await ask_to_commit(client, topic_id, producer, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await committed(client, require_stable=True) == -1


async def test_offsets_that_come_after_the_end_are_refused() -> None:
    """Without numbers they looked like a repetition of those before, which needs no transaction."""
    async with group_coordinator() as client:
        topic_id = await client.create("t", 1)
        producer = await begin(client)
        offsets = AddOffsetsToTxnRequest(transactional_id="x", producer_id=producer.producer_id, group_id="g")
        assert (await client.ask(offsets, 3)).error_code == 0
        assert await ask_to_commit(client, topic_id, producer, 3) is ErrorCode.NONE
        await end_by_coordinator(client, producer, 3, is_commit=False)
        await wait_until_stable(client)
        assert await ask_to_commit(client, topic_id, producer, 3) is ErrorCode.INVALID_TXN_STATE
        assert await committed(client, require_stable=True) == -1
