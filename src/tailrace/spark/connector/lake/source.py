"""The data source that reads the rows of a table, and then those that later versions add.

Each source of a flow is a class of its own, which Spark pickles with the credentials of the store in it: the options of
a data source would show them in Spark's web pages.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.connector.lake.stream_position import NewFiles, StreamPosition, admit, files_between
from tailrace.spark.connector.lake.table_file import Described, TableFiles
from tailrace.spark.error import ConnectorError

NEWEST_FILES = 5
_TASKS_MAX = 64
_LOOK_INTERVAL_S = 1.0
"""Spark asks a hundred times a second whether there is anything new."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """What is read."""

    endpoint: LakeEndpoint
    place: FlowPlace
    columns: Any  # pyarrow.Schema
    files_max: int
    skips_changes: bool

    def open(self) -> LakeTable:
        """Return the table; raises `ConnectorError` if it is gone."""
        table = self.endpoint.open_table(self.place)
        if table is None:
            raise ConnectorError(f"{self.endpoint} does not exist")
        return table

    def versions(self, table: LakeTable, position: StreamPosition, last: int | None = None) -> Iterator[NewFiles]:
        """Yield the versions from a position on, with the files that each one adds."""
        if position.version is None:
            version = table.version if position.first is None else position.first
            yield NewFiles(version, table.files_at(version))
        elif position.version == position.first:
            version = position.version
            yield NewFiles(version, table.files_at(version))
        else:
            version = position.version
            yield NewFiles(version, table.added_by(version))
        for change in table.changes_after(version, last):
            if change.is_removal and not self.skips_changes:
                raise ConnectorError(
                    f"{table}: version {change.version} replaces or deletes rows, which a stream of new rows cannot "
                    "follow; skip_changes=True leaves such versions out"
                )
            yield NewFiles(change.version, [] if change.is_removal else change.added)


@dataclass
class FilesPartition(InputPartition):
    """A Spark task: some files, and how they are read."""

    value: tuple[Described, ...]
    files: TableFiles | None = None


def plan_tasks(files: TableFiles, described: Sequence[Described]) -> list[InputPartition]:
    """Return tasks with about the same number of bytes each."""
    tasks: list[list[Described]] = [[] for _ in range(max(1, min(len(described), _TASKS_MAX)))]
    for each in sorted(described, key=lambda file: file.size_bytes, reverse=True):
        min(tasks, key=lambda task: sum(one.size_bytes for one in task)).append(each)
    return [FilesPartition(tuple(task), files) for task in tasks]


def read_files(read: TableRead, partition: InputPartition) -> Iterator[Any]:
    """Yield the rows of a task as `pyarrow.RecordBatch`es."""
    if not isinstance(partition, FilesPartition) or partition.files is None:
        return
    for each in partition.value:
        for rows in partition.files.read(each.description, read.columns.names):
            yield from rows.cast(read.columns).to_batches()


class NewestReader(DataSourceReader):
    """Reads some files of the newest version."""

    def __init__(self, read: TableRead) -> None:
        self._read = read

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        table = self._read.open()
        return plan_tasks(table.open_files(), table.list_files()[-NEWEST_FILES:])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one task."""
        return read_files(self._read, partition)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table in micro-batches."""

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self._last: int | None = None
        self._looked_at_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the position before the first version."""
        return StreamPosition().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit, because the settings have one."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the position after the next micro-batch; `start` if there is nothing new."""
        now_s = time.monotonic()
        if self._last is None and self._looked_at_s is not None and now_s - self._looked_at_s < _LOOK_INTERVAL_S:
            return start
        self._looked_at_s = now_s
        position = StreamPosition.from_json(start)
        versions = self._read.versions(self._read.open(), position, self._last)
        return admit(position, versions, self._read.files_max).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the version that exists now, for trigger availableNow."""
        self._last = self._read.open().version

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        table = self._read.open()
        begin, until = StreamPosition.from_json(start), StreamPosition.from_json(end)
        found = files_between(begin, until, lambda position: self._read.versions(table, position))
        return plan_tasks(table.open_files(), found)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one task."""
        return read_files(self._read, partition)


def data_source(name: str, read: TableRead, schema: StructType) -> type[DataSource]:
    """Return the class of a source. It is defined here, so that Spark pickles it with its settings."""
    format_name = name

    class TableDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return NewestReader(read)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return TableStreamReader(read)

    return TableDataSource
