"""The tasks of a batch: they write the new rows, and write the files anew that hold older rows of the same keys.

A table is changed by copy on write. Only the files with a row whose key has changed are written again, without that
row. So every reader of the format reads the table, whether or not it knows deletion vectors or delete files, and a
task needs no more memory than the keys of one part of the batch and those of one file.
"""

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.base.limits import MIB
from tailrace.spark.connector.lake.bound import KeyBounds
from tailrace.spark.connector.lake.column import fit_rows
from tailrace.spark.connector.lake.key import find_rows
from tailrace.spark.connector.lake.table_file import Described, TableFiles, group_rows, write_files
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.error import RowRefused

DELETE = "__tailrace_delete"
"""The column that says whether a row deletes that of its key."""

REPORT = "kind string, content binary, size bigint, row_count bigint"
"""What tasks return: the files that they have added and removed, the keys of a part, and refused rows by reason."""

_KEPT_BYTES_MAX = 64 * MIB
ADDED, REMOVED, KEYS, BOUNDS, REFUSED = "added", "removed", "keys", "bounds", "refused"
FILE = "file"


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes the rows of a Spark task to files of a table."""

    table: str
    files: TableFiles
    stem: str
    key: tuple[str, ...]
    rejects: Rejects
    keeps_keys: bool
    """Whether the table may have older rows of these keys."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write all rows and report the files."""
        report = _Report()
        stem = f"{self.stem}-{_task_name()}"
        keys = _KeyFile(self.files, f"{stem}-keys") if self.keeps_keys else None
        pieces = group_rows(pa.Table.from_batches([batch]) for batch in batches)
        for described in write_files(self.files, self._rows(pieces, keys, report), stem):
            report.add(ADDED, described)
        if keys is not None and (name := keys.finish()) is not None:
            report.add(KEYS, Described(name.encode(), 0, 0))
            report.add(BOUNDS, Described(keys.bounds.to_json(), 0, 0))
        yield report.batch()

    def _rows(self, pieces: Iterator[pa.Table], keys: "_KeyFile | None", report: "_Report") -> Iterator[pa.Table]:
        """Yield the rows that are written, and keep the keys of all rows."""
        for piece in pieces:
            kept = self._refuse(piece, report)
            fitted = fit_rows(kept, self.files.columns)
            if keys is not None:
                keys.write(fitted.select(self.key))
            if DELETE in kept.schema.names:
                fitted = fitted.filter(pc.invert(kept.column(DELETE)))
            if fitted.num_rows:
                yield fitted

    def _refuse(self, rows: pa.Table, report: "_Report") -> pa.Table:
        """Take out the rows that lack a value that they need, and do with them what the flow says."""
        for name in self.key:
            rows = self._refuse_nulls(rows, name, f"column {name} of the key is null", report)
        for each in self.files.columns:
            if not each.nullable and each.name not in self.key:
                rows = self._refuse_nulls(rows, each.name, f"column {each.name} is null", report)
        return rows

    def _refuse_nulls(self, rows: pa.Table, name: str, reason: str, report: "_Report") -> pa.Table:
        is_missing = rows.column(name).is_null()
        if name not in self.key and DELETE in rows.schema.names:
            is_missing = pc.and_not(is_missing, rows.column(DELETE))  # a deletion needs no more than its key
        refused = rows.filter(is_missing)
        if not refused.num_rows:
            return rows
        text = f"{self.table} refuses a row: {reason}"
        names = [each for each in refused.schema.names if each != DELETE]
        self.rejects.refuse(RowRefused(text, row) for row in refused.select(names).to_pylist())
        report.refuse(text, refused.num_rows)
        return rows.filter(pc.invert(is_missing))


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Writes files anew without the rows whose keys are in some key files."""

    files: TableFiles
    stem: str
    key: tuple[str, ...]
    key_files: tuple[str, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the files that are described in the column `FILE`, and report those with such a row."""
        report, keys = _Report(), _Keys(self.files, self.key_files)
        stem, number = f"{self.stem}-{_task_name()}", 0
        for batch in batches:
            for description in batch.column(FILE).to_pylist():
                self._rewrite(description, keys, f"{stem}-old{number}", report)
                number += 1
        yield report.batch()

    def _rewrite(self, description: bytes, keys: "_Keys", stem: str, report: "_Report") -> None:
        rows = pa.concat_tables(self.files.read(description, self.key))
        mask = np.zeros(rows.num_rows, dtype=bool)
        for part in keys:
            mask |= find_rows(rows, part)
        if not mask.any():
            return
        report.add(REMOVED, Described(description, 0, int(mask.sum())))
        if not mask.all():
            for described in write_files(self.files, self._kept(description, ~mask), stem):
                report.add(ADDED, described)

    def _kept(self, description: bytes, mask: np.ndarray) -> Iterator[pa.Table]:
        def pieces() -> Iterator[pa.Table]:
            first = 0
            for piece in self.files.read(description, self.files.columns.names):
                yield piece.filter(pa.array(mask[first : first + piece.num_rows]))
                first += piece.num_rows

        return group_rows(pieces())


def merge_files(files: TableFiles, descriptions: Sequence[bytes], stem: str) -> list[Described]:
    """Write the rows of several files to as few as possible."""
    pieces = (piece for each in descriptions for piece in files.read(each, files.columns.names))
    return list(write_files(files, group_rows(pieces), stem))


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Writes the rows of several files together; each row of `FILE` has the descriptions of some."""

    files: TableFiles
    stem: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the files, and report the new ones."""
        report = _Report()
        stem, number = f"{self.stem}-{_task_name()}", 0
        for batch in batches:
            for descriptions in batch.column(FILE).to_pylist():
                for described in merge_files(self.files, descriptions, f"{stem}-{number}"):
                    report.add(ADDED, described)
                number += 1
        yield report.batch()


class _Keys:
    """The keys of a batch, part by part. Parts are kept for the next file as long as they are small together."""

    def __init__(self, files: TableFiles, names: Sequence[str]) -> None:
        self._files = files
        self._names = names
        self._kept: dict[str, pa.Table] = {}
        self._kept_bytes = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for name in self._names:
            part = self._kept.get(name)
            if part is None:
                part = pq.read_table(pa.BufferReader(self._files.get_scratch(name)))
                if self._kept_bytes + part.nbytes <= _KEPT_BYTES_MAX:
                    self._kept[name] = part
                    self._kept_bytes += part.nbytes
            yield part


class _KeyFile:
    """The keys of one task, in a file beside the table: they need not pass through the driver."""

    def __init__(self, files: TableFiles, name: str) -> None:
        self._files = files
        self._name = name
        self._output = io.BytesIO()
        self._writer: pq.ParquetWriter | None = None
        self.bounds = KeyBounds()

    def write(self, keys: pa.Table) -> None:
        self.bounds.add(keys)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._output, keys.schema)
        self._writer.write_table(keys)

    def finish(self) -> str | None:
        """Write the file, and return its name; None if there are no keys."""
        if self._writer is None:
            return None
        self._writer.close()
        self._files.put_scratch(self._name, self._output.getvalue())
        return self._name


class _Report:
    """What a task returns to the driver."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, bytes, int, int]] = []
        self._refused: Counter[str] = Counter()

    def add(self, kind: str, described: Described) -> None:
        self._rows.append((kind, described.description, described.size_bytes, described.row_count))

    def refuse(self, reason: str, row_count: int) -> None:
        self._refused[reason] += row_count

    def batch(self) -> pa.RecordBatch:
        rows = list(self._rows)
        if self._refused:
            rows.append((REFUSED, json.dumps(self._refused).encode(), 0, self._refused.total()))
        types = {"kind": pa.string(), "content": pa.binary(), "size": pa.int64(), "row_count": pa.int64()}
        columns = {name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(types.items())}
        return pa.RecordBatch.from_pydict(columns)


def _task_name() -> str:
    """Return a name that no other attempt of a task has in this batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0-0" if context is None else f"{context.partitionId()}-{context.taskAttemptId()}"
