"""The write of one batch of a flow to a table: tasks copy the rows to a staging table, and the driver merges them."""

import json
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import Delivery, FlowPlace
from tailrace.spark.connector.batch_plan import read_plan
from tailrace.spark.connector.postgres import staging
from tailrace.spark.connector.postgres.column_type import Column, to_raw
from tailrace.spark.connector.postgres.connection import Database, explained
from tailrace.spark.connector.postgres.merge import Merge, Note
from tailrace.spark.connector.postgres.table import TableName, check_columns_fit, describe
from tailrace.spark.connector.replay import compute_only, read_query_id
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from psycopg import Connection
    from pyspark.sql import DataFrame

log = logging.getLogger("tailrace.spark.postgres")

# Constraints that are checked at the end of a transaction would name no row. A task that is lost with its machine may
# hold a lock on the staging table.
_MERGE_SESSION = "SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL lock_timeout = '60s'"


@dataclass(frozen=True, slots=True)
class TableSink:
    """A table that a flow writes."""

    database: Database
    table: TableName
    key: tuple[str, ...] = ()
    delete_when: str | None = None
    exclude: tuple[str, ...] = ()

    def write(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        """Write one batch, unless it is noted as written."""
        query_id = read_query_id(place.checkpoint)
        is_exact = place.delivery is Delivery.EXACTLY_ONCE
        note = Note(place.flow, query_id, batch_id, read_plan(place.checkpoint, batch_id)) if is_exact else None
        doing = f"writing to table {self.table}"
        if note is not None and self._is_written(note, doing):
            log.info("flow %s has written batch %d before", place.flow, batch_id)
            compute_only(batch)
            return
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            staging.drop_left_overs(connection, self.table, query_id)
            name = staging.new_name(query_id)
            columns = {column.name: column for column in describe(connection, self.table.quoted)}
            rows = self._rows(batch, columns)
            staging.create(connection, self.table, name, rows.columns[:-2])
        reports = rows.mapInArrow(
            staging.CopyTask(self.database, self.table, name, place.rejects), staging.REPORT
        ).collect()
        # A batch may take long, and the database may have been restarted: so this is another connection.
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            refused = self._finish(connection, name, tuple(rows.columns[:-2]), reports, note, place)
        place.refused.add(refused)

    def _is_written(self, note: Note, doing: str) -> bool:
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            return note.is_written(connection, self.table)

    def _finish(
        self,
        connection: "Connection[Any]",
        name: str,
        columns: tuple[str, ...],
        reports: list[Any],
        note: Note | None,
        place: FlowPlace,
    ) -> Counter[str]:
        from psycopg import sql

        refused = Counter[str]()
        for report in reports:
            refused.update(json.loads(report["refused"]))
        tasks = [report["task"] for report in reports if report["row_count"]]
        merge = Merge(self.table, name, columns, self.key, self.delete_when is not None, tasks, place.rejects)
        with connection.transaction():
            connection.execute(_MERGE_SESSION)
            if note is None or note.write(connection, self.table):
                if tasks:
                    refused += merge.run(connection, sum(report["row_count"] for report in reports))
            else:
                log.info("flow %s has written batch %d before", note.flow, note.batch_id)
                refused.clear()
            connection.execute(sql.SQL("DROP TABLE {}").format(self.table.sibling(name)))
        return refused

    def _rows(self, batch: "DataFrame", columns: dict[str, Column]) -> "DataFrame":
        """Return the rows as they are copied, then their origin, and last whether the row is a deletion."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        kept = [field for field in batch.schema.fields if field.name not in (*self.exclude, ORIGIN)]
        check_columns_fit(self.table, list(columns.values()), StructType(kept), evolve=False)
        delete = f.lit(False) if self.delete_when is None else f.coalesce(f.expr(self.delete_when), f.lit(False))
        raw = [to_raw(field, columns[field.name]) for field in kept]
        origin = batch[ORIGIN] if ORIGIN in batch.columns else f.lit(None).cast("string").alias(ORIGIN)
        return batch.select(*raw, origin, delete.cast("boolean").alias(staging.DELETE))
