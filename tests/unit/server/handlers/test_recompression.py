"""Batches of another codec than their topic's: compressed again by the leader, and the same in all else."""

import math
import random
import threading
from typing import Any

import pytest
from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request

from tailrace.base.limits import RECOMPRESS_IN_LOOP_BYTES_MAX, RECOMPRESS_TURN_BYTES_MAX
from tailrace.protocol.errors import ErrorCode
from tailrace.records.batch import BatchHeader, TimestampType, check_crc, read_header
from tailrace.records.compression import Compression
from tailrace.records.rewrite import recompress_batch
from tailrace.server.produce import compression

NAMES = {codec: "uncompressed" if codec is Compression.NONE else codec.config_name for codec in Compression}
TEXT = b"a line of a log, and another line of a log; " * 40


async def stored(client: Peer) -> tuple[bytes, list[BatchHeader]]:
    """The bytes of partition 0 of `t`, and the headers of its batches."""
    response = await client.ask(fetch_request({("t", 0): 0}), 12)
    data = bytes(response.responses[0].partitions[0].records)
    headers, position = [], 0
    while position < len(data):
        headers.append(read_header(data, position))
        assert check_crc(data, position, headers[-1])
        position += headers[-1].size_bytes
    return data, headers


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
async def test_a_batch_is_stored_in_the_codec_of_its_topic(source: Compression, target: Compression) -> None:
    async with peer() as client:
        await client.create(compression_type=NAMES[target])
        for sequence in (0, 3):
            batch = make_batch(TEXT, b"b", None, compression=source, producer=(77, 3, sequence))
            reply = await client.produce(batch)
            assert (reply.error_code, reply.base_offset) == (0, sequence)
        data, headers = await stored(client)
        assert [header.compression for header in headers] == [target, target]
        assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
            (0, 2, 3),
            (3, 5, 3),
        ]
        assert [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers] == [
            (77, 3, 0),
            (77, 3, 3),
        ]
        assert [(record.offset, record.timestamp, record.key, record.value) for record in records_of(data)] == [
            (offset, NOW_MS + offset % 3, b"key", [TEXT, b"b", None][offset % 3]) for offset in range(6)
        ]
        assert {header.max_timestamp for header in headers} == {NOW_MS + 2}


async def test_a_batch_in_the_right_codec_is_stored_as_it_came() -> None:
    """Whatever its level: Kafka does not open it to compress it again either."""
    async with peer() as client:
        await client.create(compression_type="gzip", compression_gzip_level="9")
        batch = make_batch(TEXT, compression=Compression.GZIP)
        await client.produce(batch)
        data, (header,) = await stored(client)
        assert data[header.size_bytes - 61 :] == bytes(batch[header.size_bytes - 61 :])
        assert header.crc == read_header(batch).crc


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "9", "12"), ("zstd", "-100", "19")])
async def test_the_level_is_the_topics(codec: str, low: str, high: str) -> None:
    """Lz4's default, 9, is its fast compressor, as in Kafka."""
    value = b"".join(b"%d %s;" % (number * 7919 % 1000, b"word" * (number % 5)) for number in range(2000))
    sizes = []
    for level in (low, high):
        async with peer() as client:
            await client.create("t", 1, **{"compression_type": codec, f"compression_{codec}_level": level})
            assert (await client.produce(make_batch(value))).error_code == 0
            _, (header,) = await stored(client)
            sizes.append(header.size_bytes)
    assert sizes[1] < sizes[0]


async def test_the_brokers_codec_is_the_default() -> None:
    async with peer(compression_type="zstd") as client:
        await client.create()
        await client.produce(make_batch(TEXT))
        _, (header,) = await stored(client)
        assert header.compression is Compression.ZSTD


async def test_the_leader_still_stamps_batches() -> None:
    async with peer() as client:
        await client.create(compression_type="lz4", message_timestamp_type="LogAppendTime")
        client.machine.clock.time_ms = NOW_MS + 5
        reply = await client.produce(make_batch(TEXT))
        _, (header,) = await stored(client)
        assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS + 5)
        assert reply.log_append_time_ms == NOW_MS + 5


async def test_a_batch_that_becomes_too_large_is_refused() -> None:
    async with peer() as client:
        await client.create(compression_type="uncompressed", max_message_bytes="10000")
        reply = await client.produce(make_batch(bytes(10_000), compression=Compression.ZSTD))
        assert (reply.error_code, reply.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        assert "t-0: with compression.type uncompressed the batch has" in (reply.error_message or "")
        assert (await client.produce(make_batch(b"small"))).base_offset == 0


async def test_a_repeated_batch_is_known_by_its_sequence() -> None:
    async with peer() as client:
        await client.create(compression_type="snappy")
        replies = [await client.produce(make_batch(TEXT, producer=(5, 0, 0))) for _ in range(2)]
        assert [(reply.error_code, reply.base_offset) for reply in replies] == [(0, 0), (0, 0)]
        _, headers = await stored(client)
        assert len(headers) == 1


async def test_large_batches_are_compressed_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """And stay in order with the small ones of the same request, which are not."""
    async with peer() as client:
        await client.create(compression_type="gzip")
        submit, submitted = client.broker.worker.submit, []

        def watched(*call: Any) -> Any:
            submitted.append(call)
            return submit(*call)

        monkeypatch.setattr(client.broker.worker, "submit", watched)
        assert (await client.produce(make_batch(b"small"))).error_code == 0
        assert submitted == []
        large = random.Random(1).randbytes(RECOMPRESS_IN_LOOP_BYTES_MAX)
        request = produce_request({("t", 0): make_batch(large)})
        request.topic_data[0].partition_data.append(
            produce_request({("t", 0): make_batch(b"next")}).topic_data[0].partition_data[0]
        )
        response = await client.ask(request, 12)
        assert [reply.base_offset for reply in response.responses[0].partition_responses] == [1, 2]
        assert len(submitted) == 1


async def test_a_large_batch_keeps_the_codec_that_it_was_checked_against(monkeypatch: pytest.MonkeyPatch) -> None:
    """The config of the topic may change while a thread compresses."""
    async with peer() as client:
        await client.create(compression_type="gzip")
        await client.create("other", compression_type="producer")
        partition, submit = client.broker.replicas.get("t", 0), client.broker.worker.submit

        def reconfigured(*call: Any) -> Any:
            partition.config = client.broker.topic_config("other")
            return submit(*call)

        monkeypatch.setattr(client.broker.worker, "submit", reconfigured)
        reply = await client.produce(make_batch(bytes(2 * RECOMPRESS_IN_LOOP_BYTES_MAX)))
        assert (reply.error_code, reply.base_offset) == (0, 0)
        _, (header,) = await stored(client)
        assert header.compression is Compression.GZIP


async def test_the_log_append_time_is_that_of_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another producer may have appended while a thread compressed."""
    async with peer() as client:
        await client.create(compression_type="gzip", message_timestamp_type="LogAppendTime")
        submit = client.broker.worker.submit

        def delayed(*call: Any) -> Any:
            client.machine.clock.time_ms = NOW_MS + 9
            return submit(*call)

        monkeypatch.setattr(client.broker.worker, "submit", delayed)
        reply = await client.produce(make_batch(bytes(2 * RECOMPRESS_IN_LOOP_BYTES_MAX)))
        assert reply.log_append_time_ms == NOW_MS + 9


async def test_the_small_batches_of_one_request_do_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with peer() as client:
        await client.create(compression_type="gzip")
        loop_thread, on_loop = threading.current_thread(), []

        def watched(batch: memoryview, *rest: Any, **options: Any) -> bytearray:
            on_loop.append(threading.current_thread() is loop_thread)
            return recompress_batch(batch, *rest, **options)

        monkeypatch.setattr(compression, "recompress_batch", watched)
        batch = make_batch(bytes(1024))
        count = 2 * RECOMPRESS_TURN_BYTES_MAX // len(batch)
        request = produce_request({("t", 0): batch})
        request.topic_data[0].partition_data *= count
        response = await client.ask(request, 12)
        assert [reply.base_offset for reply in response.responses[0].partition_responses] == list(range(count))
        assert len(on_loop) == count
        assert sum(on_loop) == math.ceil(RECOMPRESS_TURN_BYTES_MAX / len(batch))
        assert on_loop == sorted(on_loop, reverse=True)
