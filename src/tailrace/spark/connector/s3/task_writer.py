"""The tasks of a batch: each writes its rows to one or more objects, and returns their names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.base.limits import MIB
from tailrace.records.arrow.avro_decode import AvroValueError
from tailrace.records.arrow.column import ColumnTypeError
from tailrace.spark.connector.s3.body import Body, CountingFile, open_body
from tailrace.spark.connector.s3.name import BatchName, Written
from tailrace.spark.connector.s3.object_format import ObjectFormat, suffix_of
from tailrace.spark.connector.s3.store import StoreSettings, open_store, store_scope
from tailrace.spark.error import WriteError

_ROWS_BYTES = 16 * MIB
"""Rows that are written together: a row group of Parquet, a block of Avro. A reader holds one in memory."""

RESULT = "name string, rows bigint, bytes bigint"


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the rows of a task; it is sent to executors."""

    settings: StoreSettings
    batch: BatchName
    token: str
    format: ObjectFormat
    compression: str
    roll_bytes: int
    avro_schema: str | None = None

    def write(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write record batches, and return the names, rows and bytes of the objects as one."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        written = list(self.write_objects(batches, open_store(self.settings), task, attempt))
        if written:
            columns = {name: [getattr(each, name) for each in written] for name in ("name", "rows", "bytes")}
            yield pa.RecordBatch.from_pydict(columns)

    def write_objects(self, batches: Iterator[Any], store: Any, task: int, attempt: int) -> Iterator[Written]:
        """Write record batches to objects of a store, and yield each object when it is complete."""
        number = 0
        current: _OpenObject | None = None
        for rows in _row_groups(batches):
            if current is None:
                suffix = suffix_of(self.format, self.compression)
                name = self.batch.object(self.token, task, attempt, number, suffix)
                current = _OpenObject(self, store, name, rows.schema)
                number += 1
            current.write(rows)
            if current.size >= self.roll_bytes:
                yield current.finish()
                current = None
        if current is not None:
            yield current.finish()


class _OpenObject:
    """An object that is being written. It is there when it is finished; an object that is given up never is."""

    def __init__(self, task: TaskWriter, store: Any, name: str, schema: pa.Schema) -> None:
        import obstore

        self._task = task
        self._name = name
        self._rows = 0
        with store_scope(task.settings, f"write {name}"):
            self._writer = obstore.open_writer(store, name)
        self._file = CountingFile(self._writer)
        self._body: Body = open_body(self._file, task.format, task.compression, schema, task.avro_schema)

    @property
    def size(self) -> int:
        return self._file.size

    def write(self, rows: pa.Table) -> None:
        with store_scope(self._task.settings, f"write {self._name}"):
            try:
                self._body.write(rows)
            except (AvroValueError, ColumnTypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                place, kind = self._task.settings, self._task.format
                raise WriteError(f"{place}: rows cannot be written as {kind}: {error}") from None
        self._rows += rows.num_rows

    def finish(self) -> Written:
        with store_scope(self._task.settings, f"write {self._name}"):
            self._body.finish()
            self._writer.close()
        return Written(self._name, self._rows, self.size)


def _row_groups(batches: Iterator[Any]) -> Iterator[pa.Table]:
    """Yield the rows in pieces of some megabytes: row groups of Parquet, and blocks of Avro."""
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= _ROWS_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()
