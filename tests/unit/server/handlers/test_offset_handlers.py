"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

import pytest
from tests.unit.sample import NOW_MS, BrokerInMemory, make_batch
from tests.unit.server.handlers.peer import Peer, fetch_request, peer
from tests.unit.server.judge import judge_here

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tailrace.runtime.replication.known_producer import read_producers
from tailrace.server.context import Operation
from tailrace.storage.error import StorageError

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def list_request(*asked: tuple[int, int], topic: str = "t", epoch: int = -1) -> ListOffsetsRequest:
    """A request for (partition, timestamp) pairs of one topic."""
    partitions = [
        ListOffsetsRequestPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index, timestamp in asked
    ]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=partitions)])


async def listed(client: Peer, request: ListOffsetsRequest, version: int = 11) -> list[tuple[int, int, int, int]]:
    """(error, timestamp, offset, leader epoch) of each partition."""
    response = await client.ask(request, version)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    return [(p.error_code, p.timestamp, p.offset, p.leader_epoch) for p in partitions]


async def fill(client: Peer) -> None:
    """Offsets 0 to 4, a second apart, but the newest timestamp at offset 3."""
    await client.create("t", 2)
    for shift in (0, 1, 2, 9, 4):
        await client.produce(make_batch(b"v", timestamp=NOW_MS - 100_000 + shift * 1000))


# --- ListOffsets


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (EARLIEST, (0, -1, 0, 0)),
        (LATEST, (0, -1, 5, 0)),
        (MAX_TIMESTAMP, (0, NOW_MS - 91_000, 3, 0)),
        (EARLIEST_LOCAL, (0, -1, 0, 0)),
        (LATEST_TIERED, (0, -1, -1, -1)),
        (EARLIEST_PENDING, (0, -1, -1, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)),
        (0, (0, NOW_MS - 100_000, 0, 0)),
        (NOW_MS - 99_000, (0, NOW_MS - 99_000, 1, 0)),
        (NOW_MS - 98_999, (0, NOW_MS - 98_000, 2, 0)),
        (NOW_MS - 97_000, (0, NOW_MS - 91_000, 3, 0)),
        (NOW_MS, (0, -1, -1, -1)),
        (2**63 - 1, (0, -1, -1, -1)),
    ],
)
async def test_an_offset_by_name_or_by_time(timestamp: int, answer: tuple[int, int, int, int]) -> None:
    async with peer() as client:
        await fill(client)
        assert await listed(client, list_request((0, timestamp))) == [answer]


async def test_a_folder_that_failed_costs_its_own_partitions_only() -> None:
    """A lookup that met a broken disk used to refuse every partition of the request."""
    async with peer(log_dirs="/a,/b") as client:
        await client.create("t", 2)
        for partition in (0, 1):
            await client.produce(make_batch(b"v", timestamp=NOW_MS), index=partition)
        failed = client.broker.log_dirs[0]
        failed._folder.fail(StorageError("/a", OSError(5, "broken")))
        answers = await listed(client, list_request((0, NOW_MS), (1, NOW_MS)))
        refusal = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        assert answers == [refusal if ("t", index) in failed.logs else (0, NOW_MS, 0, 0) for index in (0, 1)]
        assert refusal in answers


async def test_an_empty_partition_begins_and_ends_at_zero() -> None:
    async with peer() as client:
        await client.create()
        asked = [(0, EARLIEST), (0, LATEST), (0, MAX_TIMESTAMP), (0, 0)]
        answers = [(await listed(client, list_request(each)))[0] for each in asked]
        assert answers == [(0, -1, 0, 0), (0, -1, 0, 0), (0, -1, -1, -1), (0, -1, -1, -1)]


@pytest.mark.parametrize(
    ("timestamp", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING, 10)]
)
async def test_a_name_is_not_known_before_its_version(timestamp: int, version: int) -> None:
    async with peer() as client:
        await fill(client)
        ((code, *_),) = await listed(client, list_request((0, timestamp)), version)
        assert code == ErrorCode.UNSUPPORTED_VERSION
        ((code, *_),) = await listed(client, list_request((0, timestamp)), version + 1)
        assert code == 0


async def test_a_follower_is_told_the_producers_of_deleted_records() -> None:
    """Consumers are not, and a follower that asks for another offset does not begin there."""
    async with peer() as client:
        await client.create()
        for sequence in (0, 1):
            await client.produce(make_batch(b"v", producer=(7, 3, sequence)))
        client.broker.replicas.get("t", 0).delete_records(1)
        told = []
        asked = ((EARLIEST, 2, 11), (EARLIEST, 2, 5), (EARLIEST, -1, 11), (LATEST, 2, 11))
        for timestamp, replica_id, version in asked:
            request = list_request((0, timestamp))
            request.replica_id = replica_id
            response = await client.ask(request, version)
            told.append(response.topics[0].partitions[0].producers)
        assert told[1:] == [[], [], []]
        (producer,) = told[0]
        (batch,) = producer.batches
        assert (producer.producer_id, producer.producer_epoch, batch.base_sequence) == (7, 3, 0)
        (entry,) = read_producers([producer], now_ms=50_000)
        assert entry.batches[0] == client.broker.replicas.get("t", 0).log.producers.entries[7].batches[0]
        assert entry.active_ms == 50_000 - producer.idle_ms


async def test_a_client_that_claims_to_be_a_follower_is_told_no_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    def may_read(_: object, operation: Operation, *__: object, **options: object) -> bool:
        return operation is not Operation.CLUSTER_ACTION

    async with peer() as client:
        await client.create()
        await client.produce(make_batch(b"v", producer=(7, 3, 0)))
        client.broker.replicas.get("t", 0).delete_records(1)
        judge_here(monkeypatch, may_read)
        request = list_request((0, EARLIEST))
        request.replica_id = 2
        (answer,) = (await client.ask(request)).topics[0].partitions
        assert (answer.error_code, answer.offset, answer.producers) == (ErrorCode.NONE, 1, [])


async def test_each_partition_has_its_own_answer() -> None:
    async with peer() as client:
        await fill(client)
        answers = await listed(client, list_request((0, LATEST), (1, LATEST), (2, LATEST), (-1, LATEST)))
        assert [(code, offset) for code, _, offset, _ in answers] == [(0, 5), (0, 0), (3, -1), (3, -1)]
        assert await listed(client, list_request((0, LATEST), topic="unknown")) == [(3, -1, -1, -1)]


async def test_a_partition_asked_for_twice_is_refused_once() -> None:
    async with peer() as client:
        await fill(client)
        answers = await listed(client, list_request((0, LATEST), (1, LATEST), (0, EARLIEST)))
        assert sorted(code for code, *_ in answers) == [0, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_another_leader_epoch_is_fenced(epoch: int, code: int) -> None:
    async with peer() as client:
        await fill(client)
        ((found, *_),) = await listed(client, list_request((0, LATEST), epoch=epoch))
        assert found == code


async def test_what_was_deleted_is_not_found_by_time() -> None:
    async with peer() as client:
        await fill(client)
        await client.ask(delete_request((0, 4)))
        assert await listed(client, list_request((0, 0))) == [(0, NOW_MS - 96_000, 4, 0)]
        assert await listed(client, list_request((0, EARLIEST))) == [(0, -1, 4, 0)]


# --- OffsetForLeaderEpoch


@pytest.mark.parametrize(
    ("topic", "index", "current_epoch", "epoch", "answer"),
    [
        ("t", 0, -1, 0, (0, 0, 5)),
        ("t", 0, 0, 0, (0, 0, 5)),
        ("t", 0, -1, 3, (0, -1, -1)),
        ("t", 0, -1, -1, (0, -1, -1)),
        ("t", 1, -1, 0, (0, 0, 0)),
        ("t", 0, 9, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("t", 7, -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
        ("u", 0, -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
async def test_where_an_epoch_ended(
    topic: str, index: int, current_epoch: int, epoch: int, answer: tuple[int, int, int]
) -> None:
    async with peer() as client:
        await fill(client)
        asked = OffsetForLeaderEpochRequestPartition(
            partition=index, current_leader_epoch=current_epoch, leader_epoch=epoch
        )
        topics = [OffsetForLeaderEpochRequestTopic(topic=topic, partitions=[asked])]
        (reply,) = (await client.ask(OffsetForLeaderEpochRequest(topics=topics), 4)).topics[0].partitions
        assert (reply.error_code, reply.leader_epoch, reply.end_offset) == answer


# --- DeleteRecords


def delete_request(*asked: tuple[int, int], topic: str = "t") -> DeleteRecordsRequest:
    partitions = [DeleteRecordsRequestPartition(partition_index=index, offset=offset) for index, offset in asked]
    return DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(name=topic, partitions=partitions)])


async def deleted(client: Peer, request: DeleteRecordsRequest) -> list[tuple[int, int]]:
    response = await client.ask(request)
    return [(p.error_code, p.low_watermark) for topic in response.topics for p in topic.partitions]


async def test_records_go_from_the_start() -> None:
    async with peer() as client:
        await fill(client)
        assert await deleted(client, delete_request((0, 3), (1, 0))) == [(0, 3), (0, 0)]
        assert await deleted(client, delete_request((0, 1))) == [(0, 3)]
        assert await deleted(client, delete_request((0, -1))) == [(0, 5)]
        response = await client.ask(fetch_request({("t", 0): 0}), 12)
        assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await client.produce(make_batch(b"next"))).base_offset == 5


async def test_deleted_records_stay_deleted_after_a_kill() -> None:
    machine = BrokerInMemory()
    async with peer(machine) as client:
        await fill(client)
        assert await deleted(client, delete_request((0, 3))) == [(0, 3)]
        await machine.kill(client.broker)
    async with machine.running() as again:
        assert again.replicas.get("t", 0).log.log_start_offset == 3


async def test_a_deletion_that_a_crash_would_undo_is_not_acknowledged() -> None:
    """It was acknowledged although the disk was full and the log start could not be written."""
    machine = BrokerInMemory()
    async with peer(machine) as client:
        await fill(client)
        machine.fs.capacity_bytes = machine.fs.used_bytes()
        assert await deleted(client, delete_request((0, 3))) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
        machine.fs.capacity_bytes = None
        assert await deleted(client, delete_request((0, 3))) == [(0, 3)]


@pytest.mark.parametrize(
    ("topic", "index", "offset", "code"),
    [
        ("t", 0, 6, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 9, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("..", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_cannot_be_deleted_says_why(topic: str, index: int, offset: int, code: int) -> None:
    async with peer() as client:
        await fill(client)
        await client.create("__consumer_offsets")
        assert await deleted(client, delete_request((index, offset), topic=topic)) == [(code, -1)]
