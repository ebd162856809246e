"""Records on their way to the broker: collected into batches, a queue for each partition.

Pure: it knows neither sockets nor clocks. One batch of a partition is under way at a time,
which keeps the records of a partition in order even when a batch has to be sent again.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from runnel.base.invariant import invariant
from runnel.records.builder import BatchBuilder
from runnel.records.compression import Compression
from runnel.records.record import read_records

HeaderPairs = Iterable[tuple[str, bytes | None]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, eq=False)
class Batch:
    """Some records of one partition that travel together."""

    target: TopicPartition
    builder: BatchBuilder
    compression: Compression
    created_at_s: float
    is_closed: bool = False
    failure_count: int = 0
    not_before_s: float = 0.0
    _data: bytes | None = None

    @property
    def record_count(self) -> int:
        return self.builder.record_count

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, near enough."""
        return self.builder.size_bytes

    def data(self) -> bytes:
        """The batch as it goes on the wire; compressed the first time."""
        if self._data is None:
            self._data = self.builder.build()
        return self._data

    def split(self) -> list["Batch"]:
        """Two batches of half the records each, for a broker that finds this one too large."""
        invariant(self.record_count > 1, "a single record cannot be split")
        halves = []
        records = list(read_records(self.data()))
        middle = len(records) // 2
        for part in (records[:middle], records[middle:]):
            builder = BatchBuilder(self.compression)
            for record in part:
                builder.append(record.timestamp, record.key, record.value, record.headers)
            halves.append(Batch(self.target, builder, self.compression, self.created_at_s, is_closed=True))
        return halves


@dataclass(slots=True)
class _Queue:
    batches: deque[Batch] = field(default_factory=deque)
    is_muted: bool = False  # a batch is under way


class Accumulator:
    """The batches of every partition that are not acknowledged yet."""

    def __init__(self, compression: Compression, batch_size_bytes: int, linger_s: float) -> None:
        self.held_bytes = 0
        self.held_batches = 0
        self._compression = compression
        self._batch_size_bytes = batch_size_bytes
        self._linger_s = linger_s
        self._queues: dict[TopicPartition, _Queue] = {}

    def append(
        self,
        target: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderPairs,
        now_s: float,
    ) -> bool:
        """Add a record; True when that opened or filled a batch, so that the sender must look at the clock again."""
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = _Queue()
        batch = queue.batches[-1] if queue.batches and not queue.batches[-1].is_closed else None
        if batch is not None:
            before_bytes = batch.size_bytes
            if batch.builder.append(timestamp_ms, key, value, headers):
                self.held_bytes += batch.size_bytes - before_bytes
                return self._close_full(batch)
            batch.is_closed = True
        builder = BatchBuilder(self._compression, size_bytes_max=self._batch_size_bytes)
        batch = Batch(target, builder, self._compression, now_s)
        builder.append(timestamp_ms, key, value, headers)
        queue.batches.append(batch)
        self.held_batches += 1
        self.held_bytes += batch.size_bytes
        self._close_full(batch)
        return True

    def _close_full(self, batch: Batch) -> bool:
        batch.is_closed = batch.size_bytes >= self._batch_size_bytes
        return batch.is_closed

    def ready(self, now_s: float, *, flush: bool) -> list[TopicPartition]:
        """The partitions whose first batch may leave now: full, old enough, or asked to hurry."""
        return [
            target
            for target, queue in self._queues.items()
            if queue.batches and not queue.is_muted and self._ready_at_s(queue, flush=flush) <= now_s
        ]

    def next_ready_at_s(self, *, flush: bool) -> float | None:
        """When the next batch will be ready by the clock alone; None when none is waiting."""
        waiting = [queue for queue in self._queues.values() if queue.batches and not queue.is_muted]
        return min((self._ready_at_s(queue, flush=flush) for queue in waiting), default=None)

    def _ready_at_s(self, queue: _Queue, *, flush: bool) -> float:
        batch = queue.batches[0]
        lingers_until_s = 0.0 if flush or batch.is_closed else batch.created_at_s + self._linger_s
        return max(lingers_until_s, batch.not_before_s)

    def take(self, target: TopicPartition) -> Batch:
        """The first batch of a partition. Nothing else of the partition leaves before it is done or put back."""
        queue = self._queues[target]
        invariant(queue.batches and not queue.is_muted, f"{target} has nothing to take")
        queue.is_muted = True
        batch = queue.batches.popleft()
        batch.is_closed = True
        return batch

    def put_back(self, batch: Batch, not_before_s: float) -> None:
        """Have a batch that was taken sent again, before everything else of its partition."""
        batch.failure_count += 1
        batch.not_before_s = not_before_s
        queue = self._queues[batch.target]
        queue.is_muted = False
        queue.batches.appendleft(batch)

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Have the parts of a batch that was taken sent in its place."""
        queue = self._queues[batch.target]
        queue.is_muted = False
        queue.batches.extendleft(reversed(parts))
        self.held_batches += len(parts) - 1
        self.held_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes

    def done(self, batch: Batch) -> None:
        """Forget a batch that was taken."""
        self.held_batches -= 1
        self.held_bytes -= batch.size_bytes
        queue = self._queues[batch.target]
        queue.is_muted = False
        if not queue.batches:
            del self._queues[batch.target]
