"""What tests of the upper layers make all the time: a clock that stands still, a batch, a broker in memory."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from tailrace.base.clock import Clock
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import MetadataStore
from tailrace.machines.controller.record import Endpoint
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.record import Record, read_batches, read_records
from tailrace.runtime.broker import Broker
from tailrace.runtime.opener import start_broker
from tailrace.storage.memory_fs import MemoryFileSystem

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


def replacing(configs: Mapping[str, str]) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Return a change of configs that puts these in the place of what there was."""
    return lambda _: configs


class BrokerInMemory:
    """A broker's disk and metadata, which outlive the broker."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.store: MetadataStore = MemoryStore()
        self.clock = ManualClock()

    @asynccontextmanager
    async def running(self, **settings: str) -> AsyncIterator[Broker]:
        """A broker from start to a clean stop, or to a kill where the test has killed it."""
        broker = await self.start(**settings)
        try:
            yield broker
        finally:
            await broker.stop()

    async def start(self, **settings: str) -> Broker:
        """Start one; setting names are written with underscores."""
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        clock: Clock = self.clock
        return await start_broker(
            BrokerConfig({"node.id": "1", "log.dirs": "/data", **texts}),
            fs=self.fs,
            clock=clock,
            store=self.store,
            endpoints=[Endpoint(LISTENER, "broker.example", 9092, "PLAINTEXT")],
        )

    async def kill(self, broker: Broker) -> None:
        """End a broker as SIGKILL does: what is written is there, nothing more is."""
        await abandon(broker)
        await self.store.close()  # which is to say that its session is over
        self.fs.kill()


async def abandon(broker: Broker) -> None:
    """End the tasks and threads of a broker and undo nothing else, so that `stop` does nothing afterwards."""
    broker.undo.pop_all()
    await broker.background.stop()
    for service in (broker.fetchers, broker.isr, broker.verification, broker.transactions, broker.groups):
        await service.stop()
    broker.folder_worker.shutdown()
    broker.worker.shutdown()
