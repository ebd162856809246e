"""The rows of a table in tasks: each Python worker keeps them, and reads only what is new in the topic.

A batch of a flow runs a task for each part of the table. The task reads the records since the last batch that this
worker has seen, so its cost follows the changes, and sends all rows of its part to Spark. Because the stream's batch is
planned before its tasks run, a row that was written to the table before a record was written to the stream is always
seen by the record.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.table.json_row import NotARow, key_decoder, row_decoder
from tailrace.spark.connector.table.newest_row import NewestRows
from tailrace.spark.connector.topic.json_value import NOT_JSON
from tailrace.spark.data_loss import Loss
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import MalformedValue, RetriableBrokerError
from tailrace.spark.option import SourceOptions
from tailrace.spark.plan import OffsetRange
from tailrace.spark.position import Offsets
from tailrace.spark.topic_io import TopicIO, topic_io

_COLUMNS = ("key", "value", "partition", "offset")
_ROWS_OF_A_BATCH = 10_000
_PARTS_KEPT_MAX = 32
"""Parts of tables that a Python worker keeps; the least recently used one is forgotten."""

_AGE_S_MAX = 600.0
"""A part that was not refreshed for this long is read anew: compaction may have removed deletions meanwhile."""


@dataclass(frozen=True, slots=True)
class TableTask:
    """Reads a table, part by part; it is sent to tasks."""

    topic: str
    options: SourceOptions
    columns: Any  # pyarrow.Schema
    key: str
    part_count: int
    rejects: Rejects

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return the rows of the parts whose numbers are in the first column."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from find_part(self, number).refresh().to_batches(max_chunksize=_ROWS_OF_A_BATCH)

    def identity(self, number: int) -> tuple[object, ...]:
        """Return what tells a part of the table from those of other tables and flows."""
        settings = (self.rejects.flow, self.rejects.policy, self.part_count, number)
        return (os.getpid(), self.options.client, self.topic, self.key, str(self.columns), *settings)


class TablePart:
    """The rows of some partitions, and how far these have been read."""

    def __init__(self, task: TableTask, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._number = number
        self._clock = clock
        self._decode = row_decoder(task.columns)
        self._decode_key = key_decoder(task.columns.field(task.key).type, task.key)
        self._forget()

    def _forget(self) -> None:
        self._rows = NewestRows(self._task.columns)
        self._next: Offsets = {}
        self._refreshed_at_s = self._clock()

    def refresh(self) -> Any:
        """Read what is new, and return all rows."""
        io = topic_io(self._task.options.client)
        first, last = io.edges(self._partitions(io))
        if self._clock() - self._refreshed_at_s > _AGE_S_MAX or self._is_cut(first, last):
            self._forget()
        wanted = [
            OffsetRange(each.topic, each.partition, max(self._next.get(each, 0), first[each]), last[each])
            for each in sorted(last)
        ]
        self._read(io, [each for each in wanted if each.size > 0])
        self._next, self._refreshed_at_s = dict(last), self._clock()
        return self._rows.table()

    def _partitions(self, io: TopicIO) -> list[TopicPartition]:
        topic = self._task.topic
        count = io.partition_counts([topic]).get(topic)
        if count is None:
            raise RetriableBrokerError(f"table {topic}: there is no topic {topic}")
        return [TopicPartition(topic, index) for index in range(self._number, count, self._task.part_count)]

    def _is_cut(self, first: Offsets, last: Offsets) -> bool:
        """Return whether records were deleted that this part has or should have read, as when a topic is made anew."""
        return any(last.get(each, -1) < offset or first[each] > offset for each, offset in self._next.items())

    def _read(self, io: TopicIO, wanted: list[OffsetRange]) -> None:
        changes: dict[bytes, dict[str, Any] | None] = {}
        rejected: list[Rejected] = []
        # Compaction removes records while they are read, which loses nothing: newer ones of their keys come later.
        found = io.read(wanted, _COLUMNS, timeout_ms=self._task.options.poll_timeout_ms, loss=Loss(is_failure=False))
        for batch in found:
            for record in batch.to_pylist():
                if record["key"] is None:
                    rejected.append(self._reject(record, "the record has no key"))
                    continue
                try:
                    changes[record["key"]] = self._row(record)
                except NotARow as error:
                    rejected.append(self._reject(record, f"{NOT_JSON}: {error}"))
        self._task.rejects.take(rejected)
        self._rows.change(changes)

    def _row(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        if record["value"] is None:
            return None
        key = self._decode_key(record["key"])
        return {**self._decode(record["value"]), self._task.key: key}

    def _reject(self, record: Mapping[str, Any], reason: str) -> Rejected:
        fault = Fault.of(MalformedValue(reason), type(self))
        place = (self._task.topic, record["partition"], record["offset"])
        return Rejected(Stage.DECODE, fault, record["value"], record["key"], (), *place)


_kept: dict[tuple[object, ...], TablePart] = {}


def find_part(task: TableTask, number: int) -> TablePart:
    """Return a part of a table, with the rows that this process has of it."""
    identity = task.identity(number)
    part = _kept.pop(identity, None) or TablePart(task, number)
    _kept[identity] = part
    while len(_kept) > _PARTS_KEPT_MAX:
        _kept.pop(next(iter(_kept)))
    return part
