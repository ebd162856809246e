"""The shipped sinks with places where a kill can meet them, and the same with their safeguards switched off.

The pipeline file of a run calls `install` before it declares its flows with the shipped connectors. What is ablated,
and why the output must differ when the driver is killed after a sink has committed a batch and before Spark knows:

- `postgres`: the note of the batch, which is written in the transaction of the rows, is neither written nor found. The
  batch comes again, and its rows are inserted twice.
- `s3`: the names of a batch have a random id of the driver in place of the id in the checkpoint. The next driver does
  not find the manifest of the batch, and writes another one beside it.
- `delta` and `iceberg`: the number of the last batch is not found in the table. The batch comes again, and its rows are
  added twice.
- `topic`: the decision is neither written nor found, as in `spark_kill_desk`. The next driver commits the batch again.

All sinks stand still at the same places with and without their safeguards.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.spark_kill_desk import DecidedSource, UndecidedSource
from tests.faults.spark_kill_halt import pass_by
from tests.faults.spark_kill_plan import Moment

from tailrace.spark.connector import replay
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.delta.delta_table import DeltaLakeTable
from tailrace.spark.connector.iceberg.iceberg_table import IcebergTable
from tailrace.spark.connector.lake import sink as lake_sink
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.connector.lake.note import BatchNote
from tailrace.spark.connector.lake.task import WriteTask
from tailrace.spark.connector.postgres import staging
from tailrace.spark.connector.postgres.merge import Note
from tailrace.spark.connector.postgres.sink import TableSink
from tailrace.spark.connector.s3 import commit, task_writer
from tailrace.spark.connector.s3.name import Written
from tailrace.spark.connector.topic.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_RANDOM_ID = str(uuid.uuid4())

CopyTask = staging.CopyTask
finish_batch = TableSink._finish
TaskWriter = task_writer.TaskWriter
BatchCommit = commit.BatchCommit


class HaltingCopy(CopyTask):
    """A task of a table's sink that can be met when its rows are in the staging table."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for report in super().__call__(batches):
            if report.column("row_count")[0].as_py():
                pass_by(Moment.PREPARED, self.rejects.flow)
            yield report


def halting_finish(sink: TableSink, *arguments: Any) -> Counter[str]:
    """Merge a batch into a table as `TableSink` does, with a halt before the transaction and one after its commit."""
    reports, flow = arguments[3], arguments[-1].flow
    has_rows = any(report["row_count"] for report in reports)
    if has_rows:
        pass_by(Moment.UNDECIDED, flow)
    refused = finish_batch(sink, *arguments)
    if has_rows:
        pass_by(Moment.COMMITTED, flow)
    return refused


class HaltingTask(TaskWriter):
    """A task of an object store's sink that can be met when its objects are in the store."""

    def write(self, batches: Iterator[Any]) -> Iterator[Any]:
        for written in super().write(batches):
            pass_by(Moment.PREPARED, self.batch.flow)
            yield written


class HaltingCommit(BatchCommit):
    """The commit of a batch of objects, with a halt before the manifest and one behind it."""

    def commit(self, objects: Sequence[Written]) -> bool:
        pass_by(Moment.UNDECIDED, self._batch.flow)
        is_counted = super().commit(objects)
        pass_by(Moment.COMMITTED, self._batch.flow)
        return is_counted


class HaltingWrite(WriteTask):
    """A task of a table's sink that can be met when its files are written."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for report in super().__call__(batches):
            if report.num_rows:
                pass_by(Moment.PREPARED, self.rejects.flow)
            yield report


def halting_commit(kind: type[LakeTable]) -> Any:
    """Return the commit of a table, with a halt before it and one behind it."""
    commit_files: Any = kind.commit

    def commit(
        table: LakeTable, added: Sequence[bytes], removed: Sequence[bytes], note: BatchNote, *, is_merge: bool
    ) -> None:
        pass_by(Moment.UNDECIDED, note.flow)
        commit_files(table, added, removed, note, is_merge=is_merge)
        pass_by(Moment.COMMITTED, note.flow)

    return commit


def install(*, is_safe: bool) -> None:
    """Replace the shipped sinks in this process, and in the tasks that it sends to executors."""
    source = DecidedSource if is_safe else UndecidedSource

    def write_topic(sink: Topic, writer: DataStreamWriter, place: FlowPlace) -> DataStreamWriter:
        writer._spark.dataSource.register(source)
        return writer.format(source.name()).options(**sink.sink_options(place))

    _replace(staging, "CopyTask", HaltingCopy)
    _replace(TableSink, "_finish", halting_finish)
    _replace(task_writer, "TaskWriter", HaltingTask)
    _replace(commit, "BatchCommit", HaltingCommit)
    _replace(lake_sink, "WriteTask", HaltingWrite)
    for kind in (DeltaLakeTable, IcebergTable):
        _replace(kind, "commit", halting_commit(kind))
        if not is_safe:
            _replace(kind, "last_batch", lambda *_: None)
    _replace(Topic, "write", write_topic)
    if not is_safe:
        _replace(Note, "is_written", lambda *_: False)
        _replace(Note, "write", lambda *_: True)
        _replace(replay, "read_query_id", _random_id)  # `s3` looks it up for each batch


def _random_id(_checkpoint: Path) -> str:
    return _RANDOM_ID


def _replace(owner: Any, name: str, new: Any) -> None:
    setattr(owner, name, new)
