"""What tests of the upper layers make all the time: a clock that stands still, a batch, a broker in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runnel.base.clock import Clock
from runnel.config.broker import BrokerConfig
from runnel.coordination.memory import MemoryStore
from runnel.coordination.store import MetadataStore
from runnel.machines.controller.record import Endpoint
from runnel.records.builder import BatchBuilder
from runnel.records.compression import Compression
from runnel.records.record import Record, read_batches, read_records
from runnel.runtime.broker import Broker
from runnel.storage.fs import FileSystem
from runnel.storage.memory_fs import MemoryFileSystem

NOW_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"


class ManualClock:
    """Both clocks stand still until a test moves them."""

    def __init__(self) -> None:
        self.time_ms = NOW_MS

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


def make_batch(
    *values: bytes | None,
    timestamp: int = NOW_MS,
    key: bytes | None = b"key",
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: Compression = Compression.NONE,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of these values, a millisecond apart; `producer` is id, epoch and first sequence number."""
    producer_id, producer_epoch, base_sequence = producer
    builder = BatchBuilder(
        compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for index, value in enumerate(values or (b"value",)):
        builder.append(timestamp + index, key, value)
    return bytearray(builder.build())


def records_of(data: bytes | bytearray | memoryview | None) -> list[Record]:
    """Every record in the bytes of a fetch, a batch that is cut off at the end left out."""
    return [record for position, _ in read_batches(data or b"") for record in read_records(data or b"", position)]


class BrokerInMemory:
    """A broker's disk and metadata, which outlive the broker."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.store: MetadataStore = MemoryStore()
        self.clock = ManualClock()

    @asynccontextmanager
    async def running(self, *, fs: FileSystem | None = None, **settings: str) -> AsyncIterator[Broker]:
        """A broker from start to a clean stop, or to a kill where the test has killed it."""
        broker = await self.start(fs=fs, **settings)
        try:
            yield broker
        finally:
            if broker._tasks:
                await broker.stop()

    async def start(self, *, fs: FileSystem | None = None, **settings: str) -> Broker:
        """Start one; setting names are written with underscores."""
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        clock: Clock = self.clock
        broker = Broker(
            BrokerConfig({"node.id": "1", "log.dirs": "/data", **texts}),
            fs=fs or self.fs,
            clock=clock,
            store=self.store,
        )
        broker.endpoints = (Endpoint(LISTENER, "broker.example", 9092, "PLAINTEXT"),)
        await broker.start()
        return broker

    async def kill(self, broker: Broker) -> None:
        """End a broker as SIGKILL does: what is written is there, nothing more is."""
        for task in broker._tasks:
            task.cancel()
        await asyncio.gather(*broker._tasks, return_exceptions=True)
        broker._tasks = []
        await broker.stop_coordinators()
        broker.worker.shutdown()
        broker._folder_worker.shutdown()
        await self.store.close()  # which is to say that its session is over
        self.fs.kill()
