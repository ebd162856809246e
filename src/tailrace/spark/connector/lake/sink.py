"""The write of one batch of a flow to a table: tasks write files, and the driver commits them."""

import json
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.batch_plan import read_plan
from tailrace.spark.connector.lake.batch_offset import read_batch_offsets
from tailrace.spark.connector.lake.bound import KeyBounds
from tailrace.spark.connector.lake.change import keep_last, mark_changes
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.connector.lake.maintenance import maintain
from tailrace.spark.connector.lake.note import BatchNote, find_plan
from tailrace.spark.connector.lake.setting import SinkSettings
from tailrace.spark.connector.lake.table_file import Described, TableFiles
from tailrace.spark.connector.lake.task import (
    ADDED,
    BOUNDS,
    FILE,
    KEYS,
    REFUSED,
    REMOVED,
    REPORT,
    MergeTask,
    RewriteTask,
    WriteTask,
)
from tailrace.spark.connector.replay import compute_only, is_repeated, read_query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("tailrace.spark.table")

_TOKEN_SIZE = 4
_QUERY_LENGTH = 12


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Writes batches of a flow to a table."""

    sink: object
    table: LakeTable
    settings: SinkSettings

    def write(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        """Write one batch, unless the table holds it."""
        query_id, plan = read_query_id(place.checkpoint), read_plan(place.checkpoint, batch_id)
        last = self.table.last_batch(place.flow, query_id)
        noted = None
        if last == batch_id:
            noted = find_plan(self.table.list_notes(), place.flow, query_id, batch_id)
        if is_repeated(last, batch_id, place.flow, self.sink, noted, plan):
            log.info("flow %s has written batch %d before", place.flow, batch_id)
            compute_only(batch)
            return
        note = BatchNote(place.flow, query_id, batch_id, read_batch_offsets(place.checkpoint, batch_id), plan)
        token = secrets.token_hex(_TOKEN_SIZE)
        stem = f"{place.flow}-{query_id.replace('-', '')[:_QUERY_LENGTH]}-{batch_id:09d}-{token}"
        self._write(batch, stem, note, place)
        maintain(self.table, self.settings, lambda files, groups, stem: _merge(batch.sparkSession, files, groups, stem))

    def _write(self, batch: "DataFrame", stem: str, note: BatchNote, place: FlowPlace) -> None:
        spark, key = batch.sparkSession, self.settings.merge_key
        files = self.table.open_files()
        old = self.table.list_files(key) if key else []
        rows = mark_changes(batch, self.settings, self.sink)
        if key:
            rows = keep_last(rows, self.settings, spark.sparkContext.defaultParallelism)
        if self.table.partition_by:
            rows = rows.sortWithinPartitions(*(name for name in self.table.partition_by if name in rows.columns))
        task = WriteTask(str(self.sink), files, stem, key, place.rejects, bool(old))
        report = _Collected(rows.mapInArrow(task, REPORT).collect())
        key_files = tuple(content.decode() for content in report.contents(KEYS))
        searched = report.files_to_search(old)
        if key_files and searched:
            rewrite = RewriteTask(files, stem, key, key_files)
            report.add(_described(spark, searched).mapInArrow(rewrite, REPORT).collect())
        added, removed = report.contents(ADDED), report.contents(REMOVED)
        if added or removed:
            self.table.commit(added, removed, note, is_merge=bool(key))
        files.delete_scratch(key_files)
        place.refused.add(report.refused())


class _Collected:
    """What the tasks of a batch report."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = list(rows)

    def add(self, rows: Sequence[Any]) -> None:
        self._rows.extend(rows)

    def contents(self, kind: str) -> list[bytes]:
        return [bytes(row["content"]) for row in self._rows if row["kind"] == kind]

    def described(self) -> list[Described]:
        added = (row for row in self._rows if row["kind"] == ADDED)
        return [Described(bytes(row["content"]), row["size"], row["row_count"]) for row in added]

    def files_to_search(self, files: Sequence[Described]) -> list[Described]:
        """Return the files that may have a key of the batch."""
        bounds = KeyBounds()
        for content in self.contents(BOUNDS):
            bounds.add_json(content)
        return [each for each in files if bounds.may_have(each.bounds)]

    def refused(self) -> Counter[str]:
        found = Counter[str]()
        for content in self.contents(REFUSED):
            found.update(json.loads(content))
        return found


def _described(spark: "SparkSession", files: Sequence[Described]) -> "DataFrame":
    """Return the descriptions of files as rows, large files first, in a task for each core or more."""
    import pyarrow as pa

    ordered = sorted(files, key=lambda each: each.size_bytes, reverse=True)
    table: Any = pa.table({FILE: pa.array([each.description for each in ordered], pa.binary())})
    rows = spark.createDataFrame(table)
    return rows.repartition(min(len(ordered), 4 * spark.sparkContext.defaultParallelism))


def _merge(
    spark: "SparkSession", files: TableFiles, groups: Sequence[Sequence[Described]], stem: str
) -> list[Described]:
    """Write groups of files in tasks."""
    import pyarrow as pa

    texts = [[each.description for each in group] for group in groups]
    table: Any = pa.table({FILE: pa.array(texts, pa.list_(pa.binary()))})
    rows = spark.createDataFrame(table).repartition(len(groups))
    return _Collected(rows.mapInArrow(MergeTask(files, stem), REPORT).collect()).described()
