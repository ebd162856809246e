"""Fetch: what is read, how much of it, and how long it waits."""

import asyncio
from dataclasses import replace
from threading import current_thread, main_thread
from typing import Any
from uuid import UUID

import pytest
from tests.settled import settled
from tests.unit.sample import make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)
from tailrace.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from tailrace.protocol.messages.topic import DeleteTopicsRequest
from tailrace.records.batch import HEADER_SIZE
from tailrace.server.handlers import fetch_read

VALUE = b"v" * 100
SIZE = len(make_batch(VALUE))
LONG_MS = 60_000


async def fetch(client: Peer, offsets: dict[tuple[str, int], int], version: int = 12, **options: int) -> list[Any]:
    """The partitions of the reply to a fetch without a session."""
    response = await client.ask(fetch_request(offsets, **options), version)
    assert response.error_code == 0
    return [partition for topic in response.responses for partition in topic.partitions]


def values(partition: Any) -> list[bytes | None]:
    return [record.value for record in records_of(partition.records)]


async def fill(client: Peer, *counts: int, topic: str = "t") -> None:
    """A topic with so many batches of one record in its partitions."""
    await client.create(topic, len(counts))
    for index, count in enumerate(counts):
        for _ in range(count):
            assert (await client.produce(make_batch(VALUE), topic=topic, index=index)).error_code == 0


# --- reading


async def test_a_fetch_gets_the_bytes_and_the_watermarks() -> None:
    async with peer() as client:
        await fill(client, 3)
        (partition,) = await fetch(client, {("t", 0): 1})
        assert [(record.offset, record.value) for record in records_of(partition.records)] == [(1, VALUE), (2, VALUE)]
        assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (3, 3, 0)


async def test_a_fetch_from_inside_a_batch_gets_the_whole_batch() -> None:
    async with peer() as client:
        await client.create()
        await client.produce(make_batch(b"a", b"b", b"c"))
        (partition,) = await fetch(client, {("t", 0): 2})
        assert [record.offset for record in records_of(partition.records)] == [0, 1, 2]


async def test_the_end_is_empty_and_no_error() -> None:
    async with peer() as client:
        await fill(client, 2)
        (partition,) = await fetch(client, {("t", 0): 2})
        assert (partition.error_code, bytes(partition.records), partition.high_watermark) == (0, b"", 2)


@pytest.mark.parametrize("offset", [3, -1, 2**62])
async def test_offsets_that_are_not_there(offset: int) -> None:
    async with peer() as client:
        await fill(client, 2)
        (partition,) = await fetch(client, {("t", 0): offset})
        assert (partition.error_code, partition.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_offsets_that_were_deleted() -> None:
    async with peer() as client:
        await fill(client, 3)
        topic = DeleteRecordsRequestTopic(
            name="t", partitions=[DeleteRecordsRequestPartition(partition_index=0, offset=2)]
        )
        await client.ask(DeleteRecordsRequest(topics=[topic]))
        (below,) = await fetch(client, {("t", 0): 1})
        (above,) = await fetch(client, {("t", 0): 2})
        assert (below.error_code, above.error_code, above.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0, 2)


async def test_each_partition_has_its_own_outcome() -> None:
    async with peer() as client:
        await fill(client, 1, 0)
        found = await fetch(client, {("t", 0): 0, ("t", 1): 0, ("t", 2): 0, ("u", 0): 0})
        assert [(p.error_code, len(values(p))) for p in found] == [(0, 1), (0, 0), (3, 0), (3, 0)]


async def test_a_damaged_batch_is_logged_with_its_file(caplog: pytest.LogCaptureFixture) -> None:
    """The consumer was told that a message is corrupt, and the broker's log had nothing of it."""
    async with peer() as client:
        await fill(client, 1, 1)
        segment = client.broker.replicas.get("t", 1).log.segments[0]
        segment.file.write_at(b"\x63", 16)  # the magic
        whole, damaged = await fetch(client, {("t", 0): 0, ("t", 1): 0})
        assert (whole.error_code, damaged.error_code) == (0, ErrorCode.CORRUPT_MESSAGE)
        assert [record.getMessage() for record in caplog.records if record.name == "tailrace.server"] == [
            f"cannot serve t-1 to 127.0.0.1:50000: cannot read offset 0: {segment.file.path} at position 0: "
            "invalid magic 99"
        ]


@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_readers_of_committed_records_get_a_list_of_aborted_transactions(isolation_level: int) -> None:
    async with peer() as client:
        await fill(client, 1)
        request = fetch_request({("t", 0): 0})
        request.isolation_level = isolation_level
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert values(partition) == [VALUE]
        assert partition.aborted_transactions == (None if isolation_level == 0 else [])


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (-1, 0), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_another_leader_epoch_is_fenced(epoch: int, code: int) -> None:
    async with peer() as client:
        await fill(client, 1)
        request = fetch_request({("t", 0): 0})
        request.topics[0].partitions[0].current_leader_epoch = epoch
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert partition.error_code == code


async def test_a_reader_whose_log_differs_is_told_where() -> None:
    async with peer() as client:
        await fill(client, 2)
        request = fetch_request({("t", 0): 2}, max_wait_ms=LONG_MS)
        request.topics[0].partitions[0].last_fetched_epoch = 3
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (-1, -1)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        request.max_wait_ms = 0
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert partition.diverging_epoch is None


async def test_a_reader_that_followed_another_leader_is_told_where_its_epoch_ended() -> None:
    async with peer() as client:
        await fill(client, 2)
        leader = client.broker.replicas.get("t", 0)
        leader.role = replace(leader.role, leader_epoch=1)
        await client.produce(make_batch(VALUE))
        request = fetch_request({("t", 0): 3})
        request.topics[0].partitions[0].last_fetched_epoch = 0
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 2)
        assert bytes(partition.records) == b""


async def test_whoever_is_no_replica_is_refused() -> None:
    """Kafka's answers: without a leader epoch it is the wrong broker, with one the leader may not know of it yet."""
    async with peer() as client:
        topic_id = await client.create()
        request = fetch_request({("t", 0): 0})
        request.replica_id = 1
        (partition,) = (await client.ask(request, 12)).responses[0].partitions
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        wanted = FetchRequestPartition(partition=0, current_leader_epoch=0)
        newer = FetchRequest(
            session_epoch=-1,
            replica_state=FetchRequestReplicaState(replica_id=1, replica_epoch=client.broker.registered.epoch),
            topics=[FetchRequestTopic(topic_id=topic_id, partitions=[wanted])],
        )
        (partition,) = (await client.ask(newer, 17)).responses[0].partitions
        assert partition.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_topics_by_id() -> None:
    async with peer() as client:
        await fill(client, 1)
        topic_id = client.broker.image.topics["t"].topic_id
        topics = [
            FetchRequestTopic(topic_id=each, partitions=[FetchRequestPartition(partition=0, partition_max_bytes=1000)])
            for each in (topic_id, UUID(int=99))
        ]
        request = FetchRequest(session_epoch=-1, max_bytes=1000, topics=topics)
        response = await client.ask(request, 13)
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in response.responses] == [
            (topic_id, 0),
            (UUID(int=99), ErrorCode.UNKNOWN_TOPIC_ID),
        ]


async def test_what_is_not_in_the_page_cache_is_read_aside() -> None:
    async with peer() as client:
        await fill(client, 2, 1)
        client.machine.fs.is_cold = True
        found = await fetch(client, {("t", 0): 0, ("t", 1): 0})
        assert [values(partition) for partition in found] == [[VALUE] * 2, [VALUE]]


@pytest.mark.parametrize("is_cold", [False, True], ids=["from the cache", "from the disk"])
async def test_a_disk_that_cannot_be_read_is_a_storage_error(is_cold: bool) -> None:
    async with peer() as client:
        await fill(client, 1, 1)
        client.machine.fs.is_cold = is_cold

        def fail(_count: int, operation: str, path: str) -> OSError | None:
            is_aside = current_thread() is not main_thread()
            is_read = operation == "read_at" if is_aside else operation == "read_cached_at" and not is_cold
            return OSError(5, "broken") if is_read and "/t-0/" in path else None

        client.machine.fs.hook = fail
        broken, good = await fetch(client, {("t", 0): 0, ("t", 1): 0})
        assert (broken.error_code, bytes(broken.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (good.error_code, values(good)) == (0, [VALUE])


# --- how much


async def test_a_partition_gives_no_more_than_was_asked_of_it() -> None:
    async with peer() as client:
        await fill(client, 5)
        (partition,) = await fetch(client, {("t", 0): 0}, partition_max_bytes=2 * SIZE + 10)
        assert len(partition.records) == 2 * SIZE + 10
        assert values(partition) == [VALUE] * 2


@pytest.mark.parametrize(("max_bytes", "partition_max_bytes"), [(1, 2**20), (2**20, 1), (0, 0), (-1, -1)])
async def test_the_first_batch_comes_whole_however_little_was_asked_for(
    max_bytes: int, partition_max_bytes: int
) -> None:
    async with peer() as client:
        await fill(client, 2, 2)
        found = await fetch(
            client, {("t", 0): 0, ("t", 1): 0}, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
        )
        assert [len(partition.records) for partition in found] == [SIZE, 0]


async def test_only_the_first_partition_with_data_gets_a_batch_beyond_the_limit() -> None:
    async with peer() as client:
        await fill(client, 0, 2, 2)
        found = await fetch(client, {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}, max_bytes=1)
        assert [len(partition.records) for partition in found] == [0, SIZE, 0]


async def test_the_limit_of_the_request_is_for_all_partitions_together() -> None:
    async with peer() as client:
        await fill(client, 2, 2, 2)
        found = await fetch(client, {("t", index): 0 for index in range(3)}, max_bytes=3 * SIZE)
        assert [len(partition.records) for partition in found] == [2 * SIZE, SIZE, 0]


@pytest.mark.parametrize("room", [1, HEADER_SIZE, SIZE - 1])
async def test_a_partition_with_room_for_a_part_of_a_batch_is_left_empty(room: int) -> None:
    """When the limit of a request ended inside the first batch of a later partition, that part was sent. Java's
    consumer takes records without a single whole batch for an error and stops."""
    async with peer() as client:
        await fill(client, 1, 1)
        found = await fetch(client, {("t", 0): 0, ("t", 1): 0}, max_bytes=SIZE + room)
        assert [len(partition.records) for partition in found] == [SIZE, 0]
        found = await fetch(client, {("t", 0): 0, ("t", 1): 0}, partition_max_bytes=room)
        assert [len(partition.records) for partition in found] == [SIZE, 0]


async def test_the_broker_has_a_limit_too() -> None:
    async with peer(fetch_max_bytes="1024") as client:
        await fill(client, 20)
        (partition,) = await fetch(client, {("t", 0): 0})
        assert len(partition.records) == 1024


async def test_the_connection_has_a_limit_too() -> None:
    async with peer() as client:
        await fill(client, 20)
        client.line.reply_bytes_max = 2 * SIZE
        (partition,) = await fetch(client, {("t", 0): 0})
        assert len(partition.records) == 2 * SIZE


# --- waiting


async def start(client: Peer, request: FetchRequest, version: int = 12) -> "asyncio.Task[Any]":
    """A fetch that has come to wait."""
    task = asyncio.ensure_future(Peer(client.broker, client.machine).ask(request, version))
    await settled()
    assert not task.done()
    return task


async def test_a_fetch_at_the_end_wakes_when_something_is_appended() -> None:
    async with peer() as client:
        await fill(client, 0, 0)
        task = await start(client, fetch_request({("t", 0): 0, ("t", 1): 0}, max_wait_ms=LONG_MS))
        await client.produce(make_batch(b"new"), index=1)
        response = await asyncio.wait_for(task, 60)
        assert [values(partition) for partition in response.responses[0].partitions] == [[], [b"new"]]
        assert response.responses[0].partitions[1].high_watermark == 1


async def test_it_waits_for_as_many_bytes_as_were_asked_for() -> None:
    async with peer() as client:
        await fill(client, 1)
        task = await start(client, fetch_request({("t", 0): 0}, max_wait_ms=LONG_MS, min_bytes=3 * SIZE))
        await client.produce(make_batch(VALUE))
        await settled()
        assert not task.done()
        await client.produce(make_batch(VALUE))
        response = await asyncio.wait_for(task, 60)
        assert len(values(response.responses[0].partitions[0])) == 3


async def test_it_ends_when_the_time_is_over() -> None:
    async with peer() as client:
        await fill(client, 1)
        (partition,) = await fetch(client, {("t", 0): 0}, max_wait_ms=1, min_bytes=2**20)
        assert values(partition) == [VALUE]


async def test_a_reply_that_is_full_does_not_wait_for_more() -> None:
    """A client that asked for more bytes than its own limit allows waited to the end of its time, with a full reply
    ready. Kafka lowers what is waited for to what can be sent."""
    async with peer() as client:
        await fill(client, 3)
        asking = fetch(client, {("t", 0): 0}, max_wait_ms=LONG_MS, min_bytes=2**31 - 1, max_bytes=2 * SIZE)
        (partition,) = await asyncio.wait_for(asking, 60)
        assert len(partition.records) == 2 * SIZE


async def test_an_error_does_not_wait() -> None:
    async with peer() as client:
        await fill(client, 0)
        asking = fetch(client, {("t", 0): 0, ("t", 9): 0}, max_wait_ms=LONG_MS)
        found = await asyncio.wait_for(asking, 60)
        assert [partition.error_code for partition in found] == [0, 3]


async def test_no_partitions_do_not_wait() -> None:
    async with peer() as client:
        assert await asyncio.wait_for(fetch(client, {}, max_wait_ms=LONG_MS), 60) == []


async def test_a_topic_that_is_deleted_wakes_who_waits_at_it() -> None:
    async with peer() as client:
        await fill(client, 0)
        task = await start(client, fetch_request({("t", 0): 0}, max_wait_ms=LONG_MS))
        await client.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
        response = await asyncio.wait_for(task, 60)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_connection_that_ends_wakes_its_fetch() -> None:
    async with peer() as client:
        await fill(client, 0)
        task = asyncio.ensure_future(client.ask(fetch_request({("t", 0): 0}, max_wait_ms=LONG_MS), 12))
        await settled()
        (interrupt,) = client.line.interrupts
        interrupt()
        response = await asyncio.wait_for(task, 60)
        assert response.responses[0].partitions[0].error_code == 0


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_read, "FETCH_WAIT_MS_MAX", 1)
    async with peer() as client:
        await fill(client, 1)
        async with asyncio.timeout(60):
            (partition,) = await fetch(client, {("t", 0): 1}, max_wait_ms=2**31 - 1)
        assert (partition.error_code, partition.records) == (0, b"")
