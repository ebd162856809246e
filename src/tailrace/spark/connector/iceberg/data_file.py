"""The data files of an Iceberg table, as tasks write and read them. Nothing here needs Spark."""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO, OutputFile, load_file_io
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import ArrowScan, _determine_partitions, _to_requested_schema, pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionKey
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record

from tailrace.spark.connector.iceberg.catalog import iceberg_scope
from tailrace.spark.connector.lake.column import fit_rows
from tailrace.spark.connector.lake.table_file import Described, OpenFile, TableFiles

SCRATCH = "tailrace"
"""The folder of small files that are not part of the table."""


@dataclass(frozen=True)
class IcebergFiles(TableFiles):
    """The files of a table; sent to tasks, with the credentials of the store."""

    name: str
    columns: Any
    metadata_json: str = field(repr=False)
    io_properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def metadata(self) -> TableMetadata:
        """The state of the table."""
        return _parse(self.metadata_json)

    @property
    def io(self) -> FileIO:
        """The access to the store."""
        return load_file_io(dict(self.io_properties), self.metadata.location)

    def split(self, rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
        metadata = self.metadata
        if metadata.spec().is_unpartitioned():
            yield None, rows
            return
        for each in _determine_partitions(metadata.spec(), metadata.schema(), rows):
            yield each.partition_key, each.arrow_table_partition

    def start(self, name: str, partition: Any) -> OpenFile:
        return _IcebergFile(self, name, partition)

    def read(self, description: bytes, columns: Sequence[str]) -> Iterator[pa.Table]:
        task = scan_task(description)
        metadata = self.metadata
        wanted = pa.schema([self.columns.field(name) for name in columns])
        with iceberg_scope(self.name, f"read {task.file.file_path}"):
            scan = ArrowScan(metadata, self.io, metadata.schema().select(*columns), AlwaysTrue())
            for batch in scan.to_record_batches([task]):
                yield fit_rows(pa.Table.from_batches([batch]), wanted)

    def _scratch(self, name: str) -> str:
        return f"{self.metadata.location}/{SCRATCH}/{name}"

    def put_scratch(self, name: str, content: bytes) -> None:
        with iceberg_scope(self.name, f"write {name}"), self.io.new_output(self._scratch(name)).create() as stream:
            stream.write(content)

    def get_scratch(self, name: str) -> bytes:
        with iceberg_scope(self.name, f"read {name}"), self.io.new_input(self._scratch(name)).open() as stream:
            return bytes(stream.read())

    def delete_scratch(self, names: Sequence[str]) -> None:
        for name in names:
            with iceberg_scope(self.name, f"delete {name}"):
                self.io.delete(self._scratch(name))


@lru_cache(8)
def _parse(text: str) -> TableMetadata:
    return TableMetadataUtil.parse_raw(text)


class _CountedOutput:
    """A file to write whose size is known before it is closed."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._stream: Any = None

    @property
    def size_bytes(self) -> int:
        return 0 if self._stream is None else int(self._stream.tell())

    def create(self, overwrite: bool = False) -> Any:
        self._stream = self._output.create(overwrite)
        return self._stream


class _IcebergFile(OpenFile):
    """A file that is being written."""

    def __init__(self, files: IcebergFiles, name: str, partition: PartitionKey | None) -> None:
        self.partition = partition
        self._files = files
        self._metadata = files.metadata
        self._row_count = 0
        self._format = FileFormatFactory.get(FileFormat.PARQUET)
        places = load_location_provider(self._metadata.location, self._metadata.properties)
        self._path = places.new_data_location(f"{name}.parquet", partition)
        self._output = files.io.new_output(self._path)
        self._counted = _CountedOutput(self._output)
        output: Any = self._counted
        self._writer = self._format.create_writer(output, self._metadata.schema(), self._metadata.properties)

    @property
    def size_bytes(self) -> int:
        return self._counted.size_bytes

    def write(self, rows: pa.Table) -> None:
        schema = self._metadata.schema()
        given = pyarrow_to_schema(
            rows.schema, name_mapping=schema.name_mapping, format_version=self._metadata.format_version
        )
        with iceberg_scope(self._files.name, f"write {self._path}"):
            batches = [
                _to_requested_schema(
                    requested_schema=schema,
                    file_schema=given,
                    batch=batch,
                    include_field_ids=True,
                    format_model=self._format,
                )
                for batch in rows.to_batches()
            ]
            self._writer.write(pa.Table.from_batches(batches))
        self._row_count += rows.num_rows

    def finish(self) -> Described:
        with iceberg_scope(self._files.name, f"write {self._path}"):
            statistics = self._writer.close()
            size = len(self._output)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._path,
            file_format=FileFormat.PARQUET,
            partition=Record() if self.partition is None else self.partition.partition,
            file_size_in_bytes=size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        file.spec_id = self._metadata.default_spec_id
        return describe(FileScanTask(file))


def scan_task(description: bytes) -> FileScanTask:
    """Return a described file. Descriptions only go from the driver of a flow to its tasks and back."""
    task: FileScanTask = pickle.loads(description)  # noqa: S301
    return task


def describe(task: FileScanTask) -> Described:
    """Return the description of a file, with its delete files."""
    file = task.file
    partition = (file.spec_id, str(file.partition))
    return Described(pickle.dumps(task), file.file_size_in_bytes, file.record_count, partition)
