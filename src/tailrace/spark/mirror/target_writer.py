"""The transactions by which a task writes copies, their offset syncs and the mirror's progress, all or nothing."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence

from tailrace.base.mirror_limits import MIRROR_SYNCS_PER_COMMIT_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.produce.core import ProducerCore
from tailrace.client.produce.delivery import Outcome
from tailrace.client.produce.row import Row
from tailrace.client.setting import ProducerSettings
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.scope import give_up
from tailrace.protocol.errors import ApiError
from tailrace.spark.mirror.batch_copy import CopiedBatch
from tailrace.spark.mirror.record import Encoded
from tailrace.spark.mirror.translation import Span, join_spans


class BatchReceipt:
    """Notes where the target wrote one batch. Parts of a split batch share the notes."""

    def __init__(self, writer: "TargetWriter", batch: CopiedBatch, spans: list[Span]) -> None:
        self._writer = writer
        self._batch = batch
        self._spans = spans

    def add(self) -> None:
        """Do nothing: the batch has all its records."""

    def part(self, start: int, stop: int) -> "BatchReceipt":
        """Return the receipt for some of the records of a batch that was too large."""
        is_dense = self._batch.last - self._batch.first + 1 == self._batch.record_count
        first = self._batch.first + start if is_dense or start == 0 else self._batch.last
        last = self._batch.first + stop - 1 if is_dense else self._batch.last
        return BatchReceipt(self._writer, self._batch._replace(first=first, last=last, record_count=0), self._spans)

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Note the offset of the first record. It is unknown if an earlier attempt was written without a reply."""
        if outcome.base_offset < 0:
            return
        batch = self._batch
        if batch.record_count:
            self._spans += batch.spans(outcome.base_offset)
        elif batch.last - batch.first + 1 == record_count:
            self._spans.append(Span(batch.first, outcome.base_offset, record_count))

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Note the topic if its broker rejects the batch. Other batches of the transaction fail with another error."""
        if isinstance(error, ApiError) and not error.code.retriable:
            self._writer.failed.setdefault(target.topic, str(error))


class TargetWriter:
    """Writes transactions of one transactional id, which taking it fences older tasks."""

    def __init__(self, cluster: Cluster, configs: Mapping[str, str], transactional_id: str, group_id: str) -> None:
        settings = ProducerSettings(
            None, {"linger.ms": "0", **configs, "transactional.id": transactional_id, "acks": "all"}, {}
        )
        self.failed: dict[str, str] = {}
        """The topics of the target that could not be written, and why."""
        self._core = ProducerCore(settings, _no_receipt, cluster=cluster)
        self._group = GroupMetadata(group_id)
        self._progress = asyncio.Event()
        self._core.outbox.on_progress(self._progress.set)
        self._spans: dict[TopicPartition, list[Span]] = {}

    async def start(self) -> None:
        """Take the transactional id: all transactions of earlier tasks are over when this returns."""
        await self._core.init_transactions(keep_prepared=False)

    async def close(self) -> None:
        """Abort an open transaction, and close the connections."""
        await self._core.abandon_transaction(5.0)
        await self._core.close()

    async def begin(self) -> None:
        """Begin a transaction."""
        self._spans = {}
        await self._core.transactional().begin()

    async def abort(self, error: BaseException) -> None:
        """Abort the transaction because of an error."""
        await give_up(self._core.transactional(), error)

    async def add(self, target: TopicPartition, batch: CopiedBatch) -> None:
        """Send a batch; waits for memory."""
        receipt = BatchReceipt(self, batch, self._spans.setdefault(target, []))
        while not self._core.outbox.add_encoded(target, receipt, batch.data, batch.record_count, time.monotonic()):
            self._progress.clear()
            self._core.sender.wake()
            await self._progress.wait()
        self._core.sender.wake()

    async def flush(self) -> dict[TopicPartition, list[Span]]:
        """Wait until all batches are written or the transaction has failed, and return where they are."""
        outbox = self._core.outbox
        mark = outbox.begin_flush()
        try:
            while not outbox.is_complete(mark):
                self._progress.clear()
                self._core.sender.wake()
                if outbox.is_complete(mark):
                    break
                await self._progress.wait()
        finally:
            outbox.end_flush()
        return {target: thin_spans(join_spans(sorted(spans))) for target, spans in self._spans.items()}

    async def write(self, topic: str, records: Iterable[Encoded]) -> None:
        """Add records to partition 0 of a topic."""
        found = await self._core.find_topic(topic)
        for record in records:
            partition, row, size = self._core.prepare(found, record.key, record.value, record.headers, 0, None)
            while self._core.outbox.append(topic, partition, row, size, time.monotonic()) is None:
                self._progress.clear()
                self._core.sender.wake()
                await self._progress.wait()

    async def commit(self, progress: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit the transaction with the mirror's progress."""
        transactions = self._core.transactional()
        await transactions.send_offsets(progress, self._group)
        await transactions.commit()


def thin_spans(spans: list[Span]) -> list[Span]:
    """Return the spans, or some of them with the first and the last if there are too many."""
    if len(spans) <= MIRROR_SYNCS_PER_COMMIT_MAX:
        return spans
    step = -(-len(spans) // (MIRROR_SYNCS_PER_COMMIT_MAX - 1))
    return [*spans[:-1:step], spans[-1]]


class _OwnReceipt:
    """The receipt of records of the mirror itself, whose offsets do not matter: the commit reports failures."""

    def add(self) -> None:
        """Return no handle."""

    def part(self, start: int, stop: int) -> "_OwnReceipt":
        """Return the same receipt."""
        return self

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Do nothing."""

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Do nothing."""


def _no_receipt() -> _OwnReceipt:
    return _OwnReceipt()
