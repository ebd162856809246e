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


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote to each topic."""

    row_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Prepared(Written):
    """The same, with the transaction in which they are and the task that wrote them."""

    place: TaskPlace | None = None
    transaction: PreparedTransaction | None = None


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


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream in transactions, and has those of a micro-batch count together."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write the rows of one task of a micro-batch, and leave their transaction prepared."""
        place = task_place()
        counts, transaction = write_prepared(self._options, place, iterator)
        return Prepared(counts, place, transaction)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Have the rows of a micro-batch count, unless they did before."""
        if (offer := _offer(messages, batchId)) is not None:
            with self.open_desk(offer.query_id) as desk:
                commit_batch(desk, offer)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Take back the rows of a micro-batch that failed; what cannot be reached now is aborted in the next run."""
        if (offer := _offer(messages, batchId)) is not None:
            with self.open_desk(offer.query_id) as desk:
                abort_batch(desk, offer)

    def open_desk(self, query_id: str) -> AbstractContextManager[Desk]:
        """Where the driver decides."""
        return open_desk(self._options.client, query_id)


def _offer(messages: Sequence[WriterCommitMessage | None], batch_id: int) -> Offer | None:
    """What tasks have prepared; None where there were none."""
    found = [message for message in messages if isinstance(message, Prepared) and message.place is not None]
    if not found:
        return None
    places = [message.place for message in found if message.place is not None]
    transactions = tuple(message.transaction for message in found if message.transaction is not None)
    had_failures = len(found) < len(messages) or any(place.attempt > 0 for place in places)
    return Offer(places[0].query_id, places[0].run_id, batch_id, transactions, had_failures)
