"""Produce: what is written, what is refused, and what is answered for each partition."""

import asyncio
import errno
import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Queue
from typing import Any
from uuid import UUID

import pytest
from tests.logged import own_records
from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.messages.topic import DeleteTopicsRequest
from tailrace.records.batch import HEADER, read_header, write_crc
from tailrace.records.compression import Compression
from tailrace.server.connection import ConnectionClosed

HOUR_MS = 3600 * 1000


async def stored(client: Peer, topic: str = "t", index: int = 0) -> list[bytes | None]:
    response = await client.ask(fetch_request({(topic, index): 0}), 12)
    return [record.value for record in records_of(response.responses[0].partitions[0].records)]


def forged(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a checksum that fits."""
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    write_crc(batch, 0, len(batch))
    return batch


# --- acks


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_append_is_answered_with_its_offset(acks: int) -> None:
    async with peer() as client:
        await client.create()
        replies = [await client.produce(make_batch(b"a", b"b"), acks=acks) for _ in range(2)]
        assert [(r.error_code, r.base_offset, r.log_append_time_ms, r.log_start_offset) for r in replies] == [
            (0, 0, -1, 0),
            (0, 2, -1, 0),
        ]
        assert await stored(client) == [b"a", b"b"] * 2


async def test_without_acks_there_is_no_reply() -> None:
    async with peer() as client:
        await client.create()
        assert await client.ask(produce_request({("t", 0): make_batch(b"a")}, acks=0), 12) is None
        assert await stored(client) == [b"a"]


@pytest.mark.parametrize(
    "batches",
    [
        {("unknown", 0): make_batch(b"a")},
        {("t", 0): b"garbage"},
        {("t", 0): make_batch(b"good"), ("t", 9): make_batch(b"a")},
    ],
    ids=["unknown", "corrupt", "one of two"],
)
async def test_without_acks_an_error_closes_the_connection(batches: dict[tuple[str, int], Any]) -> None:
    async with peer() as client:
        await client.create()
        with pytest.raises(ConnectionClosed, match="without acks"):
            await client.ask(produce_request(batches, acks=0), 12)


async def test_what_was_good_is_written_before_the_connection_closes() -> None:
    async with peer() as client:
        await client.create()
        with pytest.raises(ConnectionClosed):
            await client.ask(produce_request({("t", 9): make_batch(b"x"), ("t", 0): make_batch(b"good")}, acks=0), 12)
        assert await stored(client) == [b"good"]


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_other_acks_are_refused(acks: int) -> None:
    async with peer() as client:
        await client.create()
        assert (await client.produce(make_batch(b"a"), acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert await stored(client) == []


async def test_acks_all_is_content_with_all_replicas_where_there_are_fewer_than_min_insync_replicas() -> None:
    async with peer() as client:
        await client.create(min_insync_replicas="2")
        assert (await client.produce(make_batch(b"a"))).error_code == 0


# --- partial failure


async def test_each_partition_has_its_own_outcome() -> None:
    async with peer() as client:
        await client.create("t", 3)
        await client.create("small", max_message_bytes="100")
        batches = {
            ("t", 0): make_batch(b"a"),
            ("t", 1): bytearray(b"\0" * 61),
            ("t", 9): make_batch(b"a"),
            ("small", 0): make_batch(b"x" * 200),
            ("none", 0): make_batch(b"a"),
            ("t", 2): make_batch(b"c"),
        }
        response = await client.ask(produce_request(batches), 12)
        codes = {
            (topic.name, reply.index): (reply.error_code, reply.base_offset)
            for topic in response.responses
            for reply in topic.partition_responses
        }
        assert codes == {
            ("t", 0): (0, 0),
            ("t", 1): (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1),
            ("t", 9): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            ("t", 2): (0, 0),
            ("small", 0): (ErrorCode.MESSAGE_TOO_LARGE, -1),
            ("none", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        }


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.CORRUPT_MESSAGE),
        (make_batch(b"a") + make_batch(b"b"), ErrorCode.INVALID_RECORD),
        (forged(make_batch(b"a"), magic=7), ErrorCode.CORRUPT_MESSAGE),
        (forged(make_batch(b"a"), base_offset=5), ErrorCode.INVALID_RECORD),
        (forged(make_batch(b"a"), record_count=2), ErrorCode.INVALID_RECORD),
        (forged(make_batch(b"a"), attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (forged(make_batch(b"a"), attributes=32), ErrorCode.INVALID_RECORD),
        (make_batch(b"a", producer=(7, 0, -1)), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "null",
        "empty",
        "short",
        "two batches",
        "magic",
        "base offset",
        "count",
        "codec",
        "control",
        "no sequence",
    ],
)
async def test_a_bad_batch_is_refused_with_a_reason(batch: bytearray | None, code: int) -> None:
    async with peer() as client:
        await client.create()
        reply = await client.produce(batch)
        assert (reply.error_code, reply.base_offset, bool(reply.error_message)) == (code, -1, True)
        assert await stored(client) == []


async def test_a_wrong_checksum_is_refused() -> None:
    async with peer() as client:
        await client.create()
        batch = make_batch(b"a")
        batch[-1] ^= 1
        assert (await client.produce(batch)).error_code == ErrorCode.CORRUPT_MESSAGE


async def test_records_that_are_to_blame_are_named() -> None:
    async with peer() as client:
        await client.create(message_timestamp_after_max_ms="1")
        batch = make_batch(b"a", b"b", b"c", timestamp=NOW_MS)  # a millisecond apart: the third is too new
        reply = await client.produce(batch)
        assert reply.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [fault.batch_index for fault in reply.record_errors] == [2]
        assert all(fault.batch_index_error_message for fault in reply.record_errors)
        assert await stored(client) == []


async def test_old_versions_have_no_place_for_names_and_reasons() -> None:
    async with peer() as client:
        await client.create(message_timestamp_after_max_ms="1")
        reply = await client.produce(make_batch(b"a", b"b", b"c"), version=7)
        assert (reply.error_code, reply.record_errors, reply.error_message) == (ErrorCode.INVALID_TIMESTAMP, [], None)


# --- timestamps and compression


async def test_log_append_time_is_told_and_stored() -> None:
    async with peer() as client:
        await client.create(message_timestamp_type="LogAppendTime")
        reply = await client.produce(make_batch(b"a", b"b", timestamp=5))
        assert (reply.error_code, reply.log_append_time_ms) == (0, NOW_MS)
        response = await client.ask(fetch_request({("t", 0): 0}), 12)
        timestamps = [record.timestamp for record in records_of(response.responses[0].partitions[0].records)]
        assert timestamps == [NOW_MS, NOW_MS]


async def test_a_topic_that_stamps_records_takes_any_time_of_theirs() -> None:
    async with peer() as client:
        await client.create(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="1")
        assert (await client.produce(make_batch(b"a", timestamp=NOW_MS + HOUR_MS))).error_code == 0


async def test_a_batch_that_states_a_wrong_newest_timestamp_is_mended() -> None:
    async with peer() as client:
        await client.create()
        await client.produce(forged(make_batch(b"a", b"b"), max_timestamp=NOW_MS + HOUR_MS))
        response = await client.ask(fetch_request({("t", 0): 0}), 12)
        data = response.responses[0].partitions[0].records
        assert read_header(data).max_timestamp == NOW_MS + 1


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size", [10, 200_000], ids=["on the loop", "in a thread"])
async def test_compressed_batches_are_stored_as_they_came(codec: Compression, size: int) -> None:
    async with peer() as client:
        await client.create()
        values = [b"%d" % index * size for index in range(4)]
        batch = make_batch(*values, compression=codec)
        assert (await client.produce(batch)).error_code == 0
        assert await stored(client) == values
        response = await client.ask(fetch_request({("t", 0): 0}, max_bytes=2**24, partition_max_bytes=2**24), 12)
        assert bytes(response.responses[0].partitions[0].records)[61:] == bytes(batch)[61:]


async def test_zstd_needs_version_seven() -> None:
    async with peer() as client:
        await client.create()
        batch = make_batch(b"a" * 100, compression=Compression.ZSTD)
        assert (await client.produce(batch, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await client.produce(batch, version=7)).error_code == 0


# --- producers and transactions


async def test_a_repeated_batch_is_written_once_and_answered_alike() -> None:
    async with peer() as client:
        await client.create()
        batch = make_batch(b"a", b"b", producer=(5, 0, 0))
        replies = [await client.produce(batch) for _ in range(3)]
        assert [(reply.error_code, reply.base_offset) for reply in replies] == [(0, 0)] * 3
        assert await stored(client) == [b"a", b"b"]
        late = await client.produce(make_batch(b"d", producer=(5, 0, 3)))
        assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await client.produce(make_batch(b"c", producer=(5, 0, 2)))).base_offset == 2


async def test_a_transactional_batch_needs_a_transactional_id() -> None:
    """A transactional batch in a request without a transactional id was stored. No marker would ever have ended its
    transaction, and no reader of committed records would have come past it."""
    async with peer() as client:
        await client.create()
        reply = await client.produce(make_batch(b"a", producer=(5, 0, 0), is_transactional=True))
        assert reply.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await stored(client) == []
        request = produce_request({("t", 0): make_batch(b"a")})
        request.transactional_id = "tx"
        response = await client.ask(request, 12)
        assert response.responses[0].partition_responses[0].error_code == 0  # as in Kafka, the batch is what counts


# --- topics


async def test_topics_by_id() -> None:
    async with peer() as client:
        topic_id = await client.create()
        topics = [
            ProduceRequestTopic(
                topic_id=each, partition_data=[ProduceRequestPartition(index=0, records=make_batch(b"a"))]
            )
            for each in (topic_id, UUID(int=99), UUID(int=0))
        ]
        response = await client.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 13)
        codes = {topic.topic_id: topic.partition_responses[0].error_code for topic in response.responses}
        assert codes == {topic_id: 0, UUID(int=99): ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=0): ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_internal_topics_are_not_for_clients(name: str) -> None:
    async with peer() as client:
        await client.create(name)
        reply = await client.produce(make_batch(b"a"), topic=name)
        assert reply.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


class HeldExecutor(Executor):
    """Does its work when the test says so."""

    def __init__(self) -> None:
        self.work: Queue[Callable[[], None]] = Queue()
        self.has_work = asyncio.Event()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        self.work.put(lambda: future.set_result(function(*arguments)))
        self.has_work.set()
        return future


async def test_a_topic_deleted_while_its_batch_is_checked_is_unknown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with peer() as client:
        await client.create()
        await client.create("other")
        large = make_batch(random.Random(1).randbytes(30_000), compression=Compression.GZIP)
        request = produce_request({("other", 0): bytes(large), ("t", 0): bytes(large)})
        held = HeldExecutor()
        monkeypatch.setattr(client.broker.worker, "submit", held.submit)
        producing = asyncio.ensure_future(client.ask(request, 12))
        await held.has_work.wait()
        await Peer(client.broker, client.machine).ask(DeleteTopicsRequest(topic_names=["t"]), 5)
        held.work.get()()
        response = await producing
        monkeypatch.undo()
        codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
        assert codes == {"other": 0, "t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert own_records(caplog) == []


async def test_no_record_is_written_to_an_earlier_topic_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker was busy with the log of another topic when its image learned that a topic was deleted and made again.

    The log of the earlier topic took records for the new topic, which were acknowledged, and was then deleted.
    Consumers of the new topic got the records of the earlier one. The controller waits for its own logs only, not for
    those of the other brokers.
    """
    async with peer() as client:
        replicas, topics = client.broker.replicas, client.broker.image.topics
        await client.create("other")
        old_id = await client.create()
        assert (await client.produce(make_batch(b"old"))).error_code == 0
        may_go_on = asyncio.Event()
        in_worker = replicas._in_worker

        async def wait(*arguments: Any) -> Any:
            await may_go_on.wait()
            return await in_worker(*arguments)

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not condition():
                    await asyncio.sleep(0.001)

        monkeypatch.setattr(replicas, "_in_worker", wait)
        changes = []
        try:
            for name in ("other", "t"):
                changes.append(asyncio.ensure_future(client.ask(DeleteTopicsRequest(topic_names=[name]), 5)))
                await until(lambda name=name: name not in topics)  # type: ignore[misc]
            deleted = await client.produce(make_batch(b"late"))
            changes.append(asyncio.ensure_future(client.create()))
            await until(lambda: "t" in topics)
            written = await client.produce(make_batch(b"new"))
            fetched = (await client.ask(fetch_request({("t", 0): 0}), 12)).responses[0].partitions[0]
        finally:
            may_go_on.set()
            await asyncio.gather(*changes)
        assert topics["t"].topic_id != old_id
        assert deleted.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (written.error_code, fetched.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2
        assert (await client.produce(make_batch(b"new"))).base_offset == 0


# --- a disk that fails


async def test_a_full_disk_is_a_storage_error_and_nothing_is_lost() -> None:
    async with peer() as client:
        await client.create()
        await client.produce(make_batch(b"a"))
        client.machine.fs.hook = lambda _count, operation, _path: (
            OSError(errno.ENOSPC, "full") if operation == "write_at" else None
        )
        assert (await client.produce(make_batch(b"lost"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await stored(client) == [b"a"]
        client.machine.fs.hook = None
        assert (await client.produce(make_batch(b"b"))).base_offset == 1
        assert await stored(client) == [b"a", b"b"]


# --- rejected batches


async def test_a_rejected_batch_is_told_and_logged_with_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the reply nor the log said for which partition a batch was corrupt, and the log said nothing at all."""
    async with peer() as client:
        await client.create("t", 2)
        broken = make_batch(b"a")
        broken[-1] ^= 1
        reply = await client.produce(broken, index=1)
        assert reply.error_code == ErrorCode.CORRUPT_MESSAGE
        assert reply.error_message == "t-1: the checksum of the batch is wrong"
        await client.produce(make_batch(b"a", timestamp=NOW_MS + 2 * HOUR_MS))
        assert [record.getMessage() for record in caplog.records if record.name == "tailrace.server"] == [
            "rejected a batch from 127.0.0.1:50000 to t-1: the checksum of the batch is wrong (CORRUPT_MESSAGE)",
            "rejected a batch from 127.0.0.1:50000 to t-0: record 0: the timestamp is outside the allowed range "
            "(INVALID_TIMESTAMP)",
        ]


async def test_a_batch_that_comes_to_the_wrong_broker_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """That is what happens whenever leaders change."""
    async with peer() as client:
        await client.create()
        assert (await client.produce(make_batch(b"a"), index=7)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not [record for record in caplog.records if record.name == "tailrace.server"]
