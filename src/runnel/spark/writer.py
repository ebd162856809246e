"""Writing rows to topics, at least once, where a task that is run again writes its rows again, or exactly once."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.batch_end import Desk, abort_batch, commit_batch
from runnel.spark.decision import Offer
from runnel.spark.option import SinkOptions
from runnel.spark.task_place import TaskPlace, task_place
from runnel.spark.task_writer import write_prepared
from runnel.spark.topic_io import topic_io
from runnel.spark.transaction_desk import open_desk
from runnel.spark.transaction_name import sink_name


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote to each topic."""

    row_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Prepared(WriterCommitMessage):
    """The same, with the task that wrote them and the transaction in which they are."""

    row_counts: dict[str, int]
    place: TaskPlace
    transaction: PreparedTransaction | None


def write_rows(options: SinkOptions, batches: Iterator[Any]) -> Written:
    """Write the rows of a task, given as `pyarrow.RecordBatch`es, and wait until all are acknowledged."""
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
    """Writes the rows of a stream. Nothing is left to commit, and what was written cannot be taken back."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task of a micro-batch."""
        return write_rows(self._options, iterator)


class MicroBatch:
    """A micro-batch that is written in transactions, which count together."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task, and leave their transaction prepared."""
        place = task_place()
        counts, transaction = write_prepared(self._options, place, iterator)
        return Prepared(counts, place, transaction)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have the rows count, unless they did before."""
        if (offer := self._offer(messages)) is not None:
            with self.open_desk(offer.sink) as desk:
                commit_batch(desk, offer)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort what cannot have been decided; the next run aborts the rest."""
        if (offer := self._offer(messages)) is not None:
            with self.open_desk(offer.sink) as desk:
                abort_batch(desk, offer)

    def open_desk(self, sink: str) -> AbstractContextManager[Desk]:
        """Where the driver decides."""
        return open_desk(self._options.client, sink)

    def _offer(self, messages: Sequence[WriterCommitMessage | None]) -> Offer | None:
        """What tasks have prepared; None where there were none."""
        found = [message for message in messages if isinstance(message, Prepared)]
        if not found:
            return None
        place = found[0].place
        transactions = tuple(message.transaction for message in found if message.transaction is not None)
        is_complete = len(found) == len(messages)
        had_failures = not is_complete or any(message.place.attempt > 0 for message in found)
        sink = sink_name(place.query_id, self._options.topic)
        return Offer(sink, place.run_id, place.batch_id, transactions, had_failures, is_complete)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream exactly once."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task of a micro-batch."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Have the rows of a micro-batch count."""
        self._batch.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Take back the rows of a micro-batch that failed."""
        self._batch.abort(messages)


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """Writes the rows of a micro-batch exactly once that a stream hands to `foreachBatch`."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task."""
        return self._batch.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Have the rows count."""
        self._batch.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take back the rows of a write that failed."""
        self._batch.abort(messages)
