"""A table that is written as a flow writes it, with the tasks in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.error_policy import STOP, ErrorPolicy
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.connector.lake.bound import KeyBounds
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.connector.lake.note import BatchNote
from tailrace.spark.connector.lake.task import ADDED, BOUNDS, DELETE, FILE, KEYS, REMOVED, RewriteTask, WriteTask
from tailrace.spark.connector.reject import Rejects

FORMATS = ("delta", "iceberg")
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("cents", pa.int64())])
PARTITION = TopicPartition("orders", 0)


def make_sink(format: str, **arguments: Any) -> LakeEndpoint:
    """The sink of a flow, with paths below the flow's folder."""
    return delta("orders", **arguments) if format == "delta" else iceberg("orders", **arguments)


@dataclass
class LakeRun:
    """The batches of one query."""

    sink: LakeEndpoint
    folder: Path
    errors: ErrorPolicy = STOP
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    searched: list[bytes] = field(default_factory=list)
    """The files in which the last batch looked for keys."""
    plan: str | None = None
    """The fingerprint of the next batch."""

    @property
    def place(self) -> FlowPlace:
        return FlowPlace("flow", self.folder / "checkpoint", self.folder)

    def create(self, columns: pa.Schema = COLUMNS) -> None:
        self.sink.create_table(self.place, columns)

    def open(self) -> LakeTable:
        table = self.sink.open_table(self.place)
        assert table is not None
        return table

    def write(self, batch_id: int, rows: Sequence[Mapping[str, Any]], *parts: Sequence[Mapping[str, Any]]) -> None:
        """Write a batch, with a task for each list of rows; a row with `delete` deletes."""
        table, key = self.open(), self.sink.sink.merge_key
        files, old = table.open_files(), table.list_files(key) if key else []
        report: list[dict[str, Any]] = []
        for number, part in enumerate((rows, *parts)):
            task = WriteTask(
                "table",
                files,
                f"b{batch_id}-{number}-{uuid.uuid4().hex[:6]}",
                key,
                Rejects("flow", self.errors),
                bool(old),
            )
            report += collect(task(iter([_batch(part, table.columns, is_marked=bool(key))])))
        key_files = tuple(each["content"].decode() for each in report if each["kind"] == KEYS)
        bounds = KeyBounds()
        for each in report:
            if each["kind"] == BOUNDS:
                bounds.add_json(each["content"])
        self.searched = [each.description for each in old if bounds.may_have(each.bounds)]
        if key_files and self.searched:
            rewrite = RewriteTask(files, f"b{batch_id}-{uuid.uuid4().hex[:6]}", key, key_files)
            report += collect(rewrite(iter([pa.RecordBatch.from_pydict({FILE: self.searched})])))
        added, removed = ([each["content"] for each in report if each["kind"] == kind] for kind in (ADDED, REMOVED))
        note = BatchNote("flow", self.query_id, batch_id, {PARTITION: 10 * (batch_id + 1)}, self.plan)
        table.commit(added, removed, note, is_merge=bool(key))
        files.delete_scratch(key_files)

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the table, as its own files say."""
        table = self.open()
        files = table.open_files()
        pieces = [piece for each in table.list_files() for piece in files.read(each.description, table.columns.names)]
        found = pa.concat_tables(pieces).to_pylist() if pieces else []
        return sorted(found, key=lambda row: (row["id"], str(row)))


def collect(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def _batch(rows: Sequence[Mapping[str, Any]], columns: pa.Schema, *, is_marked: bool) -> pa.RecordBatch:
    arrays = {each.name: pa.array([row.get(each.name) for row in rows], each.type) for each in columns}
    if is_marked:
        arrays[DELETE] = pa.array([bool(row.get("delete")) for row in rows])
    return pa.RecordBatch.from_pydict(arrays)


def order(number: int, city: str = "Oslo", cents: int = 1) -> dict[str, Any]:
    """A row."""
    return {"id": number, "city": city, "cents": cents}
