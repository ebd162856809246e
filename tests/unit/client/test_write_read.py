"""Writing and reading back, with every codec and every kind of acknowledgement."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from tailrace.base.sentinel import ACKS_ALL
from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.error import DeliveryTimeout
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.reader import Reader
from tailrace.client.fetch.request import FetchOptions
from tailrace.client.offset import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from tailrace.client.produce.request import ACKS_NONE
from tailrace.client.produce.writer import Delivery, Writer
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.compression import Compression
from tailrace.records.record import Record
from tailrace.testing import Broker

START_MS = 1_700_000_000_000


def quick(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, retry_backoff_ms=1, retry_backoff_max_ms=20)


async def create(cluster: Cluster, topic: str, partitions: int = 1, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    outcome = (await Admin(cluster).create_topics([NewTopic(topic, partitions, 1, settings)]))[topic]
    assert not isinstance(outcome, ApiError), outcome


async def read(
    cluster: Cluster, topic: str, count: int, *, partitions: Sequence[int] | None = None, start: int = EARLIEST
) -> dict[int, list[Record]]:
    """The first `count` records from a time on, by partition."""
    found: dict[int, list[Record]] = {}
    async with asyncio.timeout(60), Reader(cluster, topic, partitions=partitions) as reader:
        await reader.seek_to_time(start)
        while sum(map(len, found.values())) < count:
            fetched = await anext(reader)
            found.setdefault(fetched.partition, []).extend(fetched.records())
    return found


@pytest.mark.parametrize("acks", [ACKS_NONE, 1, ACKS_ALL])
@pytest.mark.parametrize("compression", list(Compression))
def test_records_come_back_as_they_went(bootstrap: str, topic: str, compression: Compression, acks: int) -> None:
    sent = [
        (START_MS + index, [b"key-%d" % index, b"", None][index % 3], [b"v" * index, None][index % 5 == 0], headers)
        for index in range(300)
        for headers in [[("a", b"1"), ("a", None), ("ключ", b"\xff")][: index % 4]]
    ]

    async def run() -> None:
        deliveries: list[Delivery] = []
        async with quick(bootstrap) as cluster:
            await create(cluster, topic)
            options = {"acks": acks, "compression": compression, "batch_size_bytes": 4096}
            async with Writer(cluster, on_delivery=deliveries.append, **options) as writer:  # type: ignore[arg-type]
                for timestamp_ms, key, value, headers in sent:
                    await writer.send(topic, key, value, headers, timestamp_ms=timestamp_ms)
            records = (await read(cluster, topic, len(sent)))[0]
        assert [record.offset for record in records] == list(range(300))
        assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in records] == sent
        assert sum(delivery.record_count for delivery in deliveries) == 300
        assert len(deliveries) > 3
        offsets = [delivery.base_offset for delivery in deliveries]
        assert offsets == sorted(offsets) if acks != ACKS_NONE else set(offsets) == {-1}

    asyncio.run(run())


def test_keys_choose_the_partition_and_order_is_kept_within_it(bootstrap: str, topic: str) -> None:
    from tailrace.records.murmur2 import partition_for_key

    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic, partitions=3)
            async with Writer(cluster, batch_size_bytes=2048) as writer:
                for index in range(3000):
                    await writer.send(topic, b"user-%d" % (index % 50), b"%d" % index)
                await writer.send(topic, b"elsewhere", b"-1", partition=2)
            found = await read(cluster, topic, 3001)
        assert [b"elsewhere" in [record.key for record in found[partition]] for partition in range(3)] == [
            False,
            False,
            True,
        ]
        for partition, records in found.items():
            keyed = [record for record in records if record.key != b"elsewhere"]
            assert all(partition_for_key(record.key or b"", 3) == partition for record in keyed)
            values = [int(record.value or b"") for record in keyed]
            assert values == sorted(values)

    asyncio.run(run())


def test_records_without_keys_reach_every_partition(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic, partitions=3)
            async with Writer(cluster, batch_size_bytes=1024) as writer:
                for _ in range(3000):
                    await writer.send(topic, None, b"x" * 20)
            assert set(await read(cluster, topic, 3000)) == {0, 1, 2}

    asyncio.run(run())


def test_a_topic_is_created_by_writing_to_it(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            async with Writer(cluster) as writer:
                await writer.send(topic, None, b"first")
            assert [record.value for record in (await read(cluster, topic, 1))[0]] == [b"first"]

    asyncio.run(run())


def test_reading_begins_at_a_time_an_offset_or_the_end(bootstrap: str, topic: str) -> None:
    async def starts(cluster: Cluster, timestamp_ms: int) -> Mapping[int, int]:
        async with Reader(cluster, topic, partitions=[0]) as reader:
            return await reader.find_offsets(timestamp_ms)

    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic, partitions=2)
            async with Writer(cluster) as writer:
                for index in range(10):
                    await writer.send(topic, None, b"%d" % index, partition=0, timestamp_ms=START_MS + 10 * index)
            assert await starts(cluster, START_MS + 31) == {0: 4}
            assert await starts(cluster, START_MS + 91) == {0: 10}  # nothing is as young: the end
            assert await starts(cluster, EARLIEST) == {0: 0}
            assert await starts(cluster, LATEST) == {0: 10}
            newest = await list_offsets(cluster, topic, {0: MAX_TIMESTAMP, 1: MAX_TIMESTAMP})
            assert newest == {0: (9, START_MS + 90), 1: (-1, -1)}
            async with asyncio.timeout(60), Reader(cluster, topic) as reader:
                reader.seek({0: 7})
                fetched = await anext(reader)
            # The batch begins before the offset, and what is before it is not shown.
            assert [record.offset for record in fetched.records()] == [7, 8, 9]
            assert (fetched.next_offset, fetched.high_watermark) == (10, 10)

    asyncio.run(run())


def test_a_waiting_reader_gets_what_is_written_later(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic)
            options = FetchOptions(isolation=Isolation.READ_COMMITTED, max_wait_ms=60_000)
            async with asyncio.timeout(60), Reader(cluster, topic, options=options) as reader:
                await reader.seek_to_time(LATEST)
                waiting = asyncio.ensure_future(anext(reader))
                async with Writer(cluster) as writer:
                    await writer.send(topic, None, b"now")
                assert [record.value for record in (await waiting).records()] == [b"now"]

    asyncio.run(run())


def test_an_offset_out_of_range_is_an_error_or_a_new_start(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic)
            async with Writer(cluster) as writer:
                await writer.send(topic, None, b"only")
            async with asyncio.timeout(60), Reader(cluster, topic) as reader:
                reader.seek({0: 500})
                with pytest.raises(ApiError) as caught:
                    await anext(reader)
                assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            async with asyncio.timeout(60), Reader(cluster, topic, reset=EARLIEST) as reader:
                reader.seek({0: 500})
                assert [record.value for record in (await anext(reader)).records()] == [b"only"]

    asyncio.run(run())


def test_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic, max_message_bytes="2000")
            async with Writer(cluster, batch_size_bytes=16_000) as writer:
                for index in range(100):
                    await writer.send(topic, None, b"%03d" % index * 30)
            records = (await read(cluster, topic, 100))[0]
            assert [int((record.value or b"")[:3]) for record in records] == list(range(100))
            with pytest.raises(ApiError) as caught:
                async with Writer(cluster) as writer:
                    await writer.send(topic, None, b"x" * 3000)
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(run())


def test_a_partition_that_is_not_there_is_refused(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with quick(bootstrap) as cluster:
            await create(cluster, topic)
            async with Writer(cluster) as writer:
                with pytest.raises(ApiError, match="has 1 partitions"):
                    await writer.send(topic, None, b"x", partition=1)
            with pytest.raises(ApiError, match="has 1 partitions"):
                async with Reader(cluster, topic, partitions=[1]):
                    pass

    asyncio.run(run())


@pytest.mark.parametrize("fault", [{"error": "NOT_LEADER_OR_FOLLOWER"}, {"drop": True}], ids=["error", "drop"])
@pytest.mark.parametrize("api", ["PRODUCE", "FETCH", "LIST_OFFSETS", "METADATA"])
def test_what_passes_is_waited_for(tailrace_broker: Broker, topic: str, api: str, fault: dict[str, object]) -> None:
    async def run() -> None:
        async with quick(tailrace_broker.bootstrap_servers) as cluster:
            await create(cluster, topic)
            injected = tailrace_broker.inject(api, count=2, **fault)  # type: ignore[arg-type]
            async with Writer(cluster, linger_ms=0) as writer:
                for index in range(20):
                    await writer.send(topic, None, b"%d" % index)
            records = (await read(cluster, topic, 20))[0]
            assert [record.value for record in records] == [b"%d" % index for index in range(20)]
            assert injected.hits == 2

    asyncio.run(run())


def test_what_does_not_pass_in_time_is_an_error(tailrace_broker: Broker, topic: str) -> None:
    async def run() -> None:
        deliveries: list[Delivery] = []
        async with quick(tailrace_broker.bootstrap_servers) as cluster:
            await create(cluster, topic)
            tailrace_broker.inject("PRODUCE", error="NOT_ENOUGH_REPLICAS", count=None)
            tailrace_broker.inject("FETCH", error="NOT_LEADER_OR_FOLLOWER", count=None)
            for timeout_ms in (1_000, 5_000, 25_000, 60_000):
                writer = Writer(cluster, delivery_timeout_ms=timeout_ms, on_delivery=deliveries.append)
                with pytest.raises((ApiError, DeliveryTimeout)) as caught:
                    async with writer:
                        await writer.send(topic, None, b"x")
                if isinstance(caught.value, ApiError):  # on a busy machine the time may end before the first refusal
                    break
            assert isinstance(caught.value, ApiError)
            assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
            assert [(delivery.record_count, type(delivery.error)) for delivery in deliveries[-1:]] == [(1, ApiError)]
            async with asyncio.timeout(60), Reader(cluster, topic, retry_timeout_ms=2000) as reader:
                await reader.seek_to_time(EARLIEST)
                with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
                    await anext(reader)

    asyncio.run(run())


def test_a_refused_record_stops_the_writer(tailrace_broker: Broker, topic: str) -> None:
    async def run() -> None:
        async with quick(tailrace_broker.bootstrap_servers) as cluster:
            await create(cluster, topic)
            tailrace_broker.inject("PRODUCE", error="TOPIC_AUTHORIZATION_FAILED")
            async with Writer(cluster, linger_ms=0) as writer:
                await writer.send(topic, None, b"refused")
                with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
                    await writer.flush()
                with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
                    await writer.send(topic, None, b"after")
                writer._error = None  # so that leaving the block does not raise it a third time

    asyncio.run(run())


def test_a_reader_and_a_writer_survive_a_restart(topic: str) -> None:
    async def run() -> None:
        with Broker() as broker:
            async with quick(broker.bootstrap_servers) as cluster:
                await create(cluster, topic)
                async with asyncio.timeout(60), Reader(cluster, topic) as reader, Writer(cluster) as writer:
                    await reader.seek_to_time(EARLIEST)
                    await writer.send(topic, None, b"before")
                    assert [record.value for record in (await anext(reader)).records()] == [b"before"]
                    await asyncio.to_thread(broker.restart)
                    await writer.send(topic, None, b"after")
                    assert [record.value for record in (await anext(reader)).records()] == [b"after"]

    asyncio.run(run())
