"""The writers of rows to topics, at least once or exactly once."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.batch_end import Desk, abort_batch, commit_batch
from tailrace.spark.connector.batch_plan import read_plan
from tailrace.spark.connector.durable import sync_batch
from tailrace.spark.decision import Offer
from tailrace.spark.option import SinkOptions
from tailrace.spark.task_place import TaskPlace, task_place
from tailrace.spark.task_writer import write_prepared
from tailrace.spark.topic_io import topic_io
from tailrace.spark.transaction_desk import open_desk
from tailrace.spark.transaction_name import sink_name


@dataclass
class Written(WriterCommitMessage):
    """The number of rows that a task wrote to each topic."""

    row_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Prepared(WriterCommitMessage):
    """The rows of a task by topic, with the task and its transaction."""

    row_counts: dict[str, int]
    place: TaskPlace
    transaction: PreparedTransaction | None


def write_rows(options: SinkOptions, batches: Iterator[Any]) -> Written:
    """Write the `pyarrow.RecordBatch`es of a task, and wait for all acknowledgements."""
    with topic_io(options.client).writer(options.topic) as writer:
        for batch in batches:
            writer.write(batch)
        return Written(writer.finish())


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task."""
        return write_rows(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream at least once; there is nothing to commit or abort."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task of a micro-batch."""
        return write_rows(self._options, iterator)


class MicroBatch:
    """A micro-batch in transactions that are committed together."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task in a transaction, and prepare it."""
        place = task_place()
        counts, transaction = write_prepared(self._options, place, iterator)
        return Prepared(counts, place, transaction)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the batch, unless it was committed before."""
        if (offer := self._offer(messages)) is not None:
            if self._options.checkpoint is not None:
                sync_batch(self._options.checkpoint, offer.batch_id)
            with self.open_desk(offer.sink) as desk:
                commit_batch(desk, offer)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort transactions that cannot have been decided; the next run aborts the others."""
        if (offer := self._offer(messages)) is not None:
            with self.open_desk(offer.sink) as desk:
                abort_batch(desk, offer)

    def open_desk(self, sink: str) -> AbstractContextManager[Desk]:
        """Return the desk of the sink."""
        return open_desk(self._options.client, sink)

    def _offer(self, messages: Sequence[WriterCommitMessage | None]) -> Offer | None:
        """Return the prepared transactions of the tasks; None without tasks."""
        found = [message for message in messages if isinstance(message, Prepared)]
        if not found:
            return None
        place = found[0].place
        transactions = tuple(message.transaction for message in found if message.transaction is not None)
        is_complete = len(found) == len(messages)
        had_failures = not is_complete or any(message.place.attempt > 0 for message in found)
        sink = sink_name(place.query_id, self._options.topic)
        plan = read_plan(self._options.checkpoint, place.batch_id)
        return Offer(sink, place.run_id, place.batch_id, transactions, had_failures, is_complete, plan)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream exactly once."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task of a micro-batch."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a micro-batch."""
        self._batch.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort a failed micro-batch."""
        self._batch.abort(messages)


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """Writes the rows of a micro-batch in `foreachBatch` exactly once."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the write."""
        self._batch.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort a failed write."""
        self._batch.abort(messages)
