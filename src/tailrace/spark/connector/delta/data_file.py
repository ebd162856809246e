"""The data files of a Delta table, as tasks write and read them. Nothing here needs Spark."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.spark.connector.delta.statistic import FileStatistics
from tailrace.spark.connector.lake.column import fit_rows
from tailrace.spark.connector.lake.table_file import Described, OpenFile, TableFiles
from tailrace.spark.connector.s3.body import CountingFile
from tailrace.spark.connector.s3.store import StoreSettings, open_store, store_scope
from tailrace.spark.error import ConnectorError

SCRATCH = "_tailrace"
"""The folder of small files that are not part of the table. Names that begin so are no data for any reader."""

_ROWS = 65_536
_COMPRESSION = "zstd"


@dataclass(frozen=True)
class DeltaFiles(TableFiles):
    """The files of a table; sent to tasks."""

    settings: StoreSettings
    columns: Any
    partition_by: tuple[str, ...] = ()

    def split(self, rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
        if not self.partition_by:
            yield (), rows
            return
        kept = [name for name in rows.schema.names if name not in self.partition_by]
        for values in rows.group_by(list(self.partition_by)).aggregate([]).to_pylist():
            mask = None
            for name in self.partition_by:
                found = _equals(rows.column(name), values[name])
                mask = found if mask is None else pc.and_(mask, found)
            partition = tuple(write_value(values[name]) for name in self.partition_by)
            yield partition, rows.filter(mask).select(kept)

    def start(self, name: str, partition: Any) -> OpenFile:
        return _DeltaFile(self, f"{name}.parquet", partition)

    def read(self, description: bytes, columns: Sequence[str]) -> Iterator[pa.Table]:
        described = json.loads(description)
        wanted = pa.schema([self.columns.field(name) for name in columns])
        with store_scope(self.settings, f"read {described['path']}"):
            file = self._open(described["path"])
            there = [name for name in columns if name in file.schema_arrow.names and name not in self.partition_by]
            for batch in file.iter_batches(_ROWS, columns=there):
                rows = pa.Table.from_batches([batch])
                if not there:  # an Arrow batch without columns has no length
                    rows = pa.table({"__row": pa.nulls(batch.num_rows)})
                for name in self.partition_by:
                    if name in columns:
                        value = read_value(described["partitionValues"].get(name), self.columns.field(name).type)
                        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
                yield fit_rows(rows, wanted)

    def _open(self, path: str) -> pq.ParquetFile:
        """Open a file; one of a store is read to memory as a whole."""
        import obstore

        if "://" in path:
            raise ConnectorError(f"{self.settings}: file {path} belongs to another table, which is not supported")
        name = unquote(path)
        if self.settings.url.startswith("file:"):
            source: Any = f"{unquote(urlsplit(self.settings.url).path)}/{name}"
        else:
            source = pa.BufferReader(pa.py_buffer(obstore.get(open_store(self.settings), name).bytes()))
        return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")

    def put_scratch(self, name: str, content: bytes) -> None:
        import obstore

        with store_scope(self.settings, f"write {name}"):
            obstore.put(open_store(self.settings), f"{SCRATCH}/{name}", content)

    def get_scratch(self, name: str) -> bytes:
        import obstore

        with store_scope(self.settings, f"read {name}"):
            return bytes(obstore.get(open_store(self.settings), f"{SCRATCH}/{name}").bytes())

    def delete_scratch(self, names: Sequence[str]) -> None:
        import obstore

        if names:
            with store_scope(self.settings, "delete key files"):
                obstore.delete(open_store(self.settings), [f"{SCRATCH}/{name}" for name in names])


class _DeltaFile(OpenFile):
    """A file that is being written. It is there when it is finished; a file that is given up never is."""

    def __init__(self, files: DeltaFiles, name: str, partition: tuple[str | None, ...]) -> None:
        import obstore

        self.partition = partition
        self._files = files
        self._name = name
        self._statistics = FileStatistics()
        with store_scope(files.settings, f"write {name}"):
            self._writer = obstore.open_writer(open_store(files.settings), name)
        self._file = CountingFile(self._writer)
        self._parquet: pq.ParquetWriter | None = None

    @property
    def size_bytes(self) -> int:
        return self._file.size

    def write(self, rows: pa.Table) -> None:
        with store_scope(self._files.settings, f"write {self._name}"):
            if self._parquet is None:
                self._parquet = pq.ParquetWriter(pa.PythonFile(self._file, "w"), rows.schema, compression=_COMPRESSION)
            self._parquet.write_table(rows)
        self._statistics.add(rows)

    def finish(self) -> Described:
        with store_scope(self._files.settings, f"write {self._name}"):
            if self._parquet is not None:
                self._parquet.close()
            self._writer.close()
        described = {
            "path": self._name,
            "partitionValues": dict(zip(self._files.partition_by, self.partition, strict=True)),
            "size": self._file.size,
            "modificationTime": int(time.time() * 1000),
            "stats": self._statistics.to_json(),
        }
        return Described(json.dumps(described).encode(), self._file.size, self._statistics.row_count, self.partition)


def _equals(column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    return column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)


def write_value(value: Any) -> str | None:
    """Return the value of a partition as the format has it: an empty text is null."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == "" else str(value)


def read_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a partition with its type."""
    return pa.scalar(None if text == "" else text, pa.string()).cast(kind)
