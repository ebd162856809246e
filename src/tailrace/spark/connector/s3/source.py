"""The data source that reads the objects of a store: in micro-batches, or the newest ones as a batch.

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

from tailrace.spark.connector.s3.listing import expand, list_committed, list_objects
from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.object_read import read_object
from tailrace.spark.connector.s3.position import Found, Order, Position, admit
from tailrace.spark.connector.s3.store import StoreSettings, open_store

NEWEST_OBJECTS = 5
_TASKS_MAX = 64
_LIST_INTERVAL_S = 1.0
"""Spark asks a hundred times a second whether there is anything new, and stores bill each listing."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a source reads, and in which order."""

    store: StoreSettings
    format: ObjectFormat
    columns: Any  # pyarrow.Schema
    order: Order
    look_back_ms: int
    objects_max: int


@dataclass
class ObjectsPartition(InputPartition):
    """A Spark task: some objects."""

    value: tuple[Found, ...]


def read_objects(settings: ReadSettings, partition: InputPartition) -> Iterator[Any]:
    """Yield the rows of a task as `pyarrow.RecordBatch`es."""
    store = open_store(settings.store)
    for found in partition.value:
        yield from read_object(settings.store, store, found, settings.format, settings.columns)


def plan_tasks(objects: Sequence[Found]) -> list[InputPartition]:
    """Return tasks with about the same number of bytes each."""
    tasks: list[list[Found]] = [[] for _ in range(min(len(objects), _TASKS_MAX))]
    for each in sorted(objects, key=lambda found: found.size, reverse=True):
        min(tasks, key=lambda task: sum(one.size for one in task)).append(each)
    return [ObjectsPartition(tuple(task)) for task in tasks]


class NewestReader(DataSourceReader):
    """Reads the newest objects."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each object."""
        store = open_store(self._settings.store)
        found = list_committed(self._settings.store, store)[-NEWEST_OBJECTS:]
        return plan_tasks(found) or [ObjectsPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one task."""
        return read_objects(self._settings, partition)


class ObjectStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads objects in micro-batches."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._is_available_now = False
        self._listing: list[Found] = []
        self._listed_at_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the position before the first object."""
        return Position().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit, because the settings have one."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the position after the next micro-batch; `start` if there is nothing new."""
        position, settings = Position.from_json(start), self._settings
        found = admit(
            position,
            self._list(position),
            settings.order,
            look_back_ms=settings.look_back_ms,
            objects_max=settings.objects_max,
        )
        return start if found is None else found.to_json()

    def _list(self, position: Position) -> list[Found]:
        """Return the objects of the store, as they were some moments ago; with availableNow, at the first call."""
        settings, now_s = self._settings, time.monotonic()
        is_old = self._listed_at_s is None or (
            not self._is_available_now and now_s - self._listed_at_s >= _LIST_INTERVAL_S
        )
        if is_old:
            store = open_store(settings.store)
            self._listing = list_objects(settings.store, store, settings.order, position.after_name)
            self._listed_at_s = now_s
        return self._listing

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the objects that exist now, for trigger availableNow."""
        self._is_available_now = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the objects of one micro-batch."""
        store = open_store(self._settings.store)
        return plan_tasks(expand(self._settings.store, store, Position.from_json(end).objects))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one task."""
        return read_objects(self._settings, partition)


def data_source(name: str, settings: ReadSettings, schema: StructType) -> type[DataSource]:
    """Return the class of a source. It is defined here, so that Spark pickles it with its settings."""
    format_name = name

    class ObjectDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return NewestReader(settings)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return ObjectStreamReader(settings)

    return ObjectDataSource
