"""The rows of changes in Debezium's envelope, as Arrow batches, in one of two forms.

- Columns: the fields of the envelope. `before` and `after` are JSON texts, because one stream may have several tables,
  and because columns of a table come and go while those of a stream cannot. A source with a schema decodes them.
- Records: `key`, `value`, `headers` and `topic` of the records that Debezium's connector would write, with a JSON
  converter without schemas. A delete is followed by a record without a value, for compacted topics.

The time at which a change is processed is that of the plan of its batch, so that a repeated batch has equal rows.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import compute

from tailrace.spark.connector.postgres_changes.change import DELETE, READ, Change
from tailrace.spark.connector.postgres_changes.table_form import topic_name

COLUMNS = (
    "key string, before string, after string, "
    "source struct<version string, connector string, name string, ts_ms bigint, snapshot string, db string, "
    "sequence string, ts_us bigint, ts_ns bigint, schema string, table string, txId bigint, lsn bigint, xmin bigint, "
    "origin string, origin_lsn bigint>, "
    "op string, ts_ms bigint, ts_us bigint, ts_ns bigint, "
    "transaction struct<id string, total_order bigint, data_collection_order bigint>"
)
RECORDS = "key string, value string, headers array<struct<key string, value binary>>, topic string"

_ROWS_MAX = 5_000
_CHARACTERS_MAX = 8_000_000
_CONNECTOR = "postgresql"
_HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SOURCE = pa.struct(
    [(name, pa.string()) for name in ("version", "connector", "name")]
    + [("ts_ms", pa.int64())]
    + [(name, pa.string()) for name in ("snapshot", "db", "sequence")]
    + [(name, pa.int64()) for name in ("ts_us", "ts_ns")]
    + [(name, pa.string()) for name in ("schema", "table")]
    + [(name, pa.int64()) for name in ("txId", "lsn", "xmin")]
    + [("origin", pa.string()), ("origin_lsn", pa.int64())]
)
_TRANSACTION = pa.struct([("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64())])


@dataclass(frozen=True, slots=True)
class Origin:
    """What all rows of a batch have in common."""

    version: str
    name: str
    database: str
    processed_us: int
    snapshot_us: int = 0
    """The time of the snapshot, for rows that it has read."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Makes Arrow batches of changes."""

    SCHEMAS: ClassVar[dict[bool, str]] = {False: COLUMNS, True: RECORDS}

    origin: Origin
    is_records: bool = False

    def batches(self, changes: Iterable[Change]) -> Iterator[Any]:
        """Yield Arrow batches of a bounded size."""
        rows: list[Change] = []
        size = 0
        for change in changes:
            rows.append(change)
            size += len(change.before or "") + len(change.after or "")
            if len(rows) >= _ROWS_MAX or size >= _CHARACTERS_MAX:
                yield self._batch(rows)
                rows, size = [], 0
        if rows:
            yield self._batch(rows)

    def _batch(self, rows: list[Change]) -> Any:
        return self._records(rows) if self.is_records else self._columns(rows)

    def _columns(self, rows: list[Change]) -> Any:
        processed_us = self.origin.processed_us
        count = len(rows)
        return pa.RecordBatch.from_arrays(
            [
                pa.array([row.key for row in rows], pa.string()),
                pa.array([row.before for row in rows], pa.string()),
                pa.array([row.after for row in rows], pa.string()),
                self._sources(rows),
                pa.array([row.op for row in rows], pa.string()),
                pa.repeat(pa.scalar(processed_us // 1000, pa.int64()), count),
                pa.repeat(pa.scalar(processed_us, pa.int64()), count),
                pa.repeat(pa.scalar(processed_us * 1000, pa.int64()), count),
                pa.array([_transaction(row) for row in rows], _TRANSACTION),
            ],
            ["key", "before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"],
        )

    def _records(self, rows: list[Change]) -> Any:
        keys: list[str | None] = []
        values: list[str | None] = []
        headers: list[list[dict[str, Any]] | None] = []
        topics: list[str] = []
        for row in rows:
            keys.append(row.key)
            values.append(self._value(row))
            headers.append(_headers(row))
            topics.append(self._topic(row))
            if row.op == DELETE and row.key is not None:
                keys.append(row.key)
                values.append(None)
                headers.append(_headers(row))
                topics.append(self._topic(row))
        arrays = [
            pa.array(keys, pa.string()),
            pa.array(values, pa.string()),
            pa.array(headers, _HEADER),
            pa.array(topics, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers", "topic"])

    def _topic(self, row: Change) -> str:
        return topic_name(self.origin.name, row.table)

    def _source(self, row: Change) -> dict[str, Any]:
        time_us = self._time_us(row)
        return {
            "version": self.origin.version,
            "connector": _CONNECTOR,
            "name": self.origin.name,
            "ts_ms": time_us // 1000,
            "snapshot": _snapshot(row),
            "db": self.origin.database,
            "sequence": _sequence(row),
            "ts_us": time_us,
            "ts_ns": time_us * 1000,
            "schema": row.table[0],
            "table": row.table[1],
            "txId": None if row.transaction is None else row.transaction.xid,
            "lsn": row.lsn,
            "xmin": None,
            "origin": None if row.transaction is None else row.transaction.origin,
            "origin_lsn": None if row.transaction is None else row.transaction.origin_lsn,
        }

    def _sources(self, rows: list[Change]) -> Any:
        """Return the same as an Arrow column, without an object for each row."""
        times_us = pa.array([self._time_us(row) for row in rows], pa.int64())
        constants = {"version": self.origin.version, "connector": _CONNECTOR, "name": self.origin.name}
        fields: dict[str, Any] = {name: _repeat(text, len(rows)) for name, text in constants.items()}
        fields |= {
            "ts_ms": compute.divide(times_us, 1000),
            "ts_us": times_us,
            "ts_ns": compute.multiply(times_us, 1000),
            "snapshot": [_snapshot(row) for row in rows],
            "db": _repeat(self.origin.database, len(rows)),
            "sequence": [_sequence(row) for row in rows],
            "schema": [row.table[0] for row in rows],
            "table": [row.table[1] for row in rows],
            "txId": [None if row.transaction is None else row.transaction.xid for row in rows],
            "lsn": [row.lsn for row in rows],
            "xmin": pa.nulls(len(rows), pa.int64()),
            "origin": [None if row.transaction is None else row.transaction.origin for row in rows],
            "origin_lsn": [None if row.transaction is None else row.transaction.origin_lsn for row in rows],
        }
        arrays = [pa.array(fields[field.name], field.type) for field in _SOURCE]
        return pa.StructArray.from_arrays(arrays, fields=list(_SOURCE))

    def _time_us(self, row: Change) -> int:
        return self.origin.snapshot_us if row.transaction is None else row.transaction.time_us

    def _value(self, row: Change) -> str:
        """Return the whole envelope as JSON; the rows are JSON already."""
        processed_us = self.origin.processed_us
        return (
            f'{{"before":{row.before or "null"},"after":{row.after or "null"},"source":{_compact(self._source(row))},'
            f'"transaction":{_compact(_transaction(row))},"op":{encode_basestring(row.op)},'
            f'"ts_ms":{processed_us // 1000},"ts_us":{processed_us},"ts_ns":{processed_us * 1000}}}'
        )


def _repeat(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _snapshot(row: Change) -> str:
    return "true" if row.op == READ else "false"


def _sequence(row: Change) -> str:
    """Return where the transaction before ended, and the position of the change, as a JSON array of texts."""
    previous = "null" if row.transaction is None else f'"{row.transaction.previous_lsn}"'
    return f'[{previous},"{row.lsn}"]'


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _transaction(row: Change) -> dict[str, Any] | None:
    found = row.transaction
    if found is None:
        return None
    return {
        "id": f"{found.xid}:{found.commit_lsn}",
        "total_order": row.order,
        "data_collection_order": row.table_order,
    }


def _headers(row: Change) -> list[dict[str, Any]] | None:
    """Return the headers of the two halves of a changed key."""
    if row.other_key is None:
        return None
    name = "__debezium.newkey" if row.op == DELETE else "__debezium.oldkey"
    return [{"key": name, "value": row.other_key.encode()}]
