"""With flush.messages=1 a record is acknowledged, and may be read, when it is on the disk; one flush serves many."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.settled import settled
from tests.unit.sample import make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import ProduceResponsePartition


class Disk:
    """A disk whose syncs of segments wait until they may go on, and fail if told to."""

    def __init__(self) -> None:
        self.sync_count = 0
        self.fails = False
        self._may_go_on = threading.Event()
        self._may_go_on.set()

    def hook(self, _count: int, operation: str, path: str) -> OSError | None:
        if operation != "sync" or not path.endswith(".log"):
            return None
        self.sync_count += 1
        assert self._may_go_on.wait(60)
        return OSError(errno.EIO, "broken") if self.fails else None

    def hold(self) -> None:
        self._may_go_on.clear()

    def go_on(self) -> None:
        self._may_go_on.set()


@asynccontextmanager
async def flushing_peer(**configs: str) -> AsyncIterator[tuple[Peer, Disk]]:
    """A client, a topic that wants flushes, and its disk."""
    async with peer() as client:
        await client.create("t", 1, **{"flush_messages": "1", **configs})
        await client.produce(make_batch(b"first"))
        disk = Disk()
        client.machine.fs.hook = disk.hook
        try:
            yield client, disk
        finally:
            disk.go_on()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def begin(client: Peer, batch: bytearray) -> "asyncio.Task[ProduceResponsePartition]":
    """Produce as a client of its own, who waits for its reply."""
    return asyncio.create_task(Peer(client.broker, client.machine).produce(batch))


async def readable(client: Peer) -> list[bytes | None]:
    response = await client.ask(fetch_request({("t", 0): 0}), 12)
    return [record.value for record in records_of(response.responses[0].partitions[0].records)]


async def test_a_record_is_acknowledged_and_readable_when_it_is_on_the_disk() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        produced = begin(client, make_batch(b"a"))
        await until(lambda: disk.sync_count == 1)
        assert await readable(client) == [b"first"]  # the event loop serves others meanwhile
        assert not produced.done()
        disk.go_on()
        reply = await produced
        assert (reply.error_code, reply.base_offset) == (0, 1)
        assert await readable(client) == [b"first", b"a"]
        assert client.broker.replicas.get("t", 0).log.recovery_point == 2


async def test_all_who_come_during_a_flush_are_served_by_the_next() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        produced = [begin(client, make_batch(b"0"))]
        await until(lambda: disk.sync_count == 1)
        produced += [begin(client, make_batch(b"%d" % number)) for number in range(1, 20)]
        await until(lambda: client.broker.replicas.get("t", 0).log.log_end_offset == 21)
        disk.go_on()
        replies = await asyncio.gather(*produced)
        assert [(reply.error_code, reply.base_offset) for reply in replies] == [(0, offset) for offset in range(1, 21)]
        assert disk.sync_count == 2
        client.machine.fs.hook = None
        await client.machine.kill(client.broker)
        client.machine.fs.lose_power()
        async with client.machine.running() as again:
            assert again.replicas.get("t", 0).log.log_end_offset == 21


async def test_a_flush_that_fails_is_told_to_all_who_wait_and_to_all_who_come() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        retried = make_batch(b"b", producer=(7, 0, 0))
        produced = [begin(client, make_batch(b"a"))]
        await until(lambda: disk.sync_count == 1)
        produced += [begin(client, bytearray(retried))]
        produced += [begin(client, make_batch(b"c")) for _ in range(5)]
        await until(lambda: client.broker.replicas.get("t", 0).log.log_end_offset == 8)
        disk.fails = True
        disk.go_on()
        codes = [(reply.error_code, reply.base_offset) for reply in await asyncio.gather(*produced)]
        assert codes == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 7
        assert client.broker.log_dirs[0].is_offline
        assert client.broker.replicas.get("t", 0).high_watermark == 1
        # The producer tries again: that the log knows the batch does not mean that the disk does.
        for batch in (retried, make_batch(b"d")):
            assert (await client.produce(bytearray(batch))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_repeated_batch_waits_for_the_flush_of_the_first() -> None:
    async with flushing_peer() as (client, disk):
        batch = make_batch(b"a", producer=(7, 0, 0))
        disk.hold()
        produced = [begin(client, bytearray(batch))]
        await until(lambda: disk.sync_count == 1)
        produced.append(begin(client, bytearray(batch)))
        await settled()
        assert not any(one.done() for one in produced)
        disk.go_on()
        assert [reply.base_offset for reply in await asyncio.gather(*produced)] == [1, 1]
        assert disk.sync_count == 1


async def test_a_client_that_goes_away_takes_nobody_with_it() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        produced = [begin(client, make_batch(b"a")) for _ in range(3)]
        await until(lambda: disk.sync_count == 1)
        produced[0].cancel()
        produced[2].cancel()
        await settled()
        disk.go_on()
        assert (await produced[1]).error_code == 0
        assert (await client.produce(make_batch(b"b"))).error_code == 0


async def test_without_acks_nobody_waits_but_the_record_is_flushed() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        assert await client.ask(produce_request({("t", 0): make_batch(b"a")}, acks=0), 12) is None
        assert await readable(client) == [b"first"]
        disk.go_on()
        await until(lambda: client.broker.replicas.get("t", 0).high_watermark == 2)
        # A stop in the middle waits for the flush.
        disk.hold()
        assert await client.ask(produce_request({("t", 0): make_batch(b"b")}, acks=0), 12) is None
        await until(lambda: disk.sync_count == 2)
        disk.go_on()


async def test_a_reader_who_waits_is_woken_by_the_end_of_the_flush() -> None:
    async with flushing_peer() as (client, disk):
        disk.hold()
        reader = Peer(client.broker, client.machine)
        waiting = asyncio.create_task(reader.ask(fetch_request({("t", 0): 1}, max_wait_ms=60_000), 12))
        produced = begin(client, make_batch(b"a"))
        await until(lambda: disk.sync_count == 1)
        assert not waiting.done()
        disk.go_on()
        async with asyncio.timeout(60):
            response = await waiting
        assert [record.value for record in records_of(response.responses[0].partitions[0].records)] == [b"a"]
        await produced


async def test_only_every_so_manieth_record_waits() -> None:
    async with flushing_peer(flush_messages="3") as (client, disk):
        for number in range(2, 11):
            await client.produce(make_batch(b"%d" % number))
        assert disk.sync_count == 3
