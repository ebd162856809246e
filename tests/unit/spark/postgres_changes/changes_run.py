"""A run of the reader of changes without Spark: its calls in Spark's order, with a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.postgres_changes.postgres_changes import PostgresChanges, Snapshot
from tailrace.spark.connector.postgres_changes.slot_start import start_slot
from tailrace.spark.connector.postgres_changes.stream_reader import ChangeStreamReader
from tailrace.spark.connector.postgres_changes.value import UNAVAILABLE

Event = dict[str, Any]


class ChangesRun:
    """A query over a source, whose checkpoint outlives its readers as that of Spark does."""

    def __init__(self, source: PostgresChanges, folder: Path, flow: str = "flow") -> None:
        self.source = source
        self.place = FlowPlace(flow, folder, folder)
        self.planned: list[Event] = []
        """The ends of all batches, as Spark logs them."""
        self.finished = 0
        """The number of batches that are finished."""
        self.reader: ChangeStreamReader | None = None

    def start(self) -> ChangeStreamReader:
        """Start, or start again after `crash`."""
        self.source.connect_source(self.place)
        wanted = self.source._wanted(self.place)
        start_slot(
            wanted.slot,
            self.source.tables,
            wanted.record_path,
            has_snapshot=self.source.snapshot is Snapshot.INITIAL,
        )
        self.reader = ChangeStreamReader(wanted)
        return self.reader

    def crash(self) -> None:
        """Lose the reader; what was planned and finished stays."""
        if self.reader is not None:
            self.reader.stop()
        self.reader = None

    def step(self) -> list[Event] | None:
        """Run a batch: the planned one that is not finished, or the next one; None if there is nothing to do."""
        if not self.plan():
            return None
        rows = self.read()
        self.finish()
        return rows

    def plan(self) -> bool:
        """Plan a batch, unless one is planned already."""
        if len(self.planned) > self.finished:
            return True
        reader = self.reader or self.start()
        if self.finished:
            reader.commit(self.planned[-1])
        start = self._start()
        end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
        if end == start:
            return False
        self.planned.append(end)
        return True

    def read(self) -> list[Event]:
        """Read the batch that is planned and not finished."""
        reader = self.reader or self.start()
        return [row for batch in self.batches(reader) for row in batch.to_pylist()]

    def batches(self, reader: ChangeStreamReader) -> Iterator[Any]:
        start = self.planned[-2] if len(self.planned) > 1 else json.loads(json.dumps(reader.initialOffset()))
        for partition in reader.partitions(start, self.planned[-1]):
            yield from reader.read(partition)

    def finish(self) -> None:
        """Take the planned batch for finished."""
        self.finished = len(self.planned)

    def drain(self, take: Callable[[list[Event]], None] | None = None) -> list[Event]:
        """Run batches until there is nothing to do, and return their rows."""
        found = []
        while (rows := self.step()) is not None:
            found += rows
            if take is not None:
                take(rows)
        return found

    def _start(self) -> Event:
        if self.planned:
            return self.planned[-1]
        assert self.reader is not None
        found: Event = json.loads(json.dumps(self.reader.initialOffset()))
        return found


def row(event: Event, field: str = "after") -> Any:
    """Return a row of an event."""
    return None if event[field] is None else json.loads(event[field])


class Mirror:
    """Tables to which events are applied, by their names and the keys of their rows."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Event]] = {}

    def apply(self, events: list[Event]) -> None:
        """Apply events in their order."""
        for event in events:
            table = self.tables.setdefault(event["source"]["table"], {})
            if event["op"] == "t":
                table.clear()
            elif event["op"] == "d":
                table.pop(event["key"], None)
            else:
                before = table.get(event["key"], {})
                table[event["key"]] = {
                    name: before.get(name, value) if value == UNAVAILABLE else value
                    for name, value in row(event).items()
                }

    def rows(self, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a table in order; a column that came later than a row is null in it."""
        found = self.tables.get(table, {}).values()
        return sorted(tuple(each.get(name) for name in columns) for each in found)
