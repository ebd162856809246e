"""Framed values by column: batches of records to columns of the reader's schema, and rows to framed values.

This runs in executors. A Python worker keeps its codecs, and with them the schemas that it has looked up, for as long
as it lives. Nothing here needs Spark.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tailrace.schema
from tailrace.base.limits import SPARK_CLUSTERS_KEPT_MAX
from tailrace.records.arrow.avro_decode import AvroValueError
from tailrace.records.arrow.avro_plan import UnsupportedAvroType
from tailrace.records.arrow.column import ColumnTypeError
from tailrace.records.error import RecordError
from tailrace.schema.avro.column_resolution import UnresolvedValue
from tailrace.schema.codec.error import InvalidRow
from tailrace.schema.error import CodecError, RegistryError
from tailrace.schema.frame import frame
from tailrace.schema.registry import Registry
from tailrace.schema.setting import RegistrySettings
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.record_row import read_record
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON
from tailrace.spark.connector.topic.registered import ValueFormat
from tailrace.spark.connector.topic.registry_failure import is_missing, registry_scope
from tailrace.spark.dead_letter import Fault, Rejected
from tailrace.spark.error import RowRefused
from tailrace.spark.record_place import ORIGIN, split_origin

KEY = "__key"
TEXT = "__text"
"""Columns of the rows that are encoded, beside those of the function."""

NOT_A_VALUE = "value is not valid for its format"
UNKNOWN_SCHEMA = "schema of the value is unknown"
DOES_NOT_FIT = "value does not fit the schema"
REASONS = (NOT_A_VALUE, UNKNOWN_SCHEMA, DOES_NOT_FIT)
"""The reasons by which records that cannot be decoded are counted."""

# By name, because each codec imports packages of its own.
_CODECS = {ValueFormat.AVRO: "AvroCodec", ValueFormat.JSON: "JsonCodec", ValueFormat.PROTOBUF: "ProtobufCodec"}


@dataclass(frozen=True, slots=True)
class ValueDecoder:
    """Decodes the values of a topic to the columns of one schema, whatever versions they were written with."""

    format: ValueFormat
    registry: RegistrySettings
    topic: str
    schema_id: int
    rejects: Rejects | None  # None if the columns of a wrong value are null
    columns: Any  # pyarrow.Schema of the decoded columns
    include: tuple[str, ...] = ()

    @property
    def has_reasons(self) -> bool:
        """Whether the rows of rejected records are returned, too, with a reason in the column `REASON`."""
        return self.rejects is not None and self.rejects.policy.action is not OnError.STOP

    def decode(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Decode record batches with the columns `value` and `include`, and those that rejected records need."""
        for batch in batches:
            with registry_scope(self.registry):
                yield self._decode(batch)

    def _decode(self, batch: Any) -> Any:
        parts: list[Any] = []
        reasons: list[Any] = []
        rejected: list[Rejected] = []
        for rows, table, error in self._read(batch):
            parts.append(table)
            reasons.append(pa.repeat(pa.scalar(None if error is None else _kind(error), pa.string()), rows.num_rows))
            if error is not None and self.rejects is not None and self.rejects.needs_records:
                rejected.append(read_record(rows.to_pylist()[0], Fault.of(error, type(self), _reason(error))))
        if rejected and self.rejects is not None:
            self.rejects.take(rejected)
        decoded = pa.concat_tables([self.columns.empty_table(), *parts])
        for name in self.include:
            decoded = decoded.append_column(batch.schema.field(name), batch.column(name))
        if self.has_reasons:
            decoded = decoded.append_column(REASON, pa.chunked_array(reasons, pa.string()))
        return _one_batch(decoded, batch.num_rows)

    def _read(self, rows: Any) -> Iterator[tuple[Any, Any, Exception | None]]:
        """Yield rows with their columns, in order; a row that is wrong alone, with nulls and the error.

        The codecs reject a column as a whole, so wrong rows are found by halves.
        """
        try:
            yield rows, self._table(rows.column("value")), None
        except (CodecError, RecordError, RegistryError, UnsupportedAvroType, pa.ArrowInvalid) as error:
            if isinstance(error, RegistryError) and not is_missing(error):
                raise
            if rows.num_rows == 1:
                nulls = pa.table([pa.nulls(1, field.type) for field in self.columns], schema=self.columns)
                yield rows, nulls, error
                return
            middle = rows.num_rows // 2
            yield from self._read(rows.slice(0, middle))
            yield from self._read(rows.slice(middle))

    def _table(self, values: Any) -> Any:
        codec = _codec(self)
        if self.format is ValueFormat.PROTOBUF:
            from tailrace.spark.connector.topic.protobuf_value import ProtobufColumns

            return ProtobufColumns(codec).decode(values, self.columns)
        return _fit(codec.decode_column(values), self.columns)


@dataclass(frozen=True, slots=True)
class ValueEncoder:
    """Encodes rows with a schema that is registered before the first batch."""

    format: ValueFormat
    registry: RegistrySettings
    topic: str
    schema: str
    rejects: Rejects
    has_key: bool = False

    @property
    def reason(self) -> str:
        """The reason by which rows that cannot be encoded are counted."""
        return f"a row cannot be written to topic {self.topic}"

    @property
    def has_reasons(self) -> bool:
        """Whether refused rows are returned, too, with a reason in the column `REASON`."""
        return self.rejects.policy.action is not OnError.STOP

    def added(self, origin: Sequence[str]) -> list[str]:
        """Return the columns, with their types, that `encode` returns beside key and value."""
        return [f"{name} string" for name in (REASON, *origin)] if self.has_reasons else []

    def encode(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Encode the columns but `KEY` and `ORIGIN` to `value`; for JSON they are one of texts, `TEXT`."""
        for batch in batches:
            columns = {"key": batch.column(KEY)} if self.has_key else {}
            rows = batch.drop_columns([KEY]) if self.has_key else batch
            with registry_scope(self.registry):
                parts = [*self._read(rows)]
            self.rejects.refuse(refused for _, refused in parts if refused is not None)
            columns["value"] = pa.concat_arrays([values for values, _ in parts])
            if self.has_reasons:
                found = [None if refused is None else self.reason for values, refused in parts for _ in values]
                columns[REASON] = pa.array(found, pa.string())
                columns |= {ORIGIN: batch.column(ORIGIN)} if ORIGIN in batch.schema.names else {}
            yield pa.RecordBatch.from_pydict(columns)

    def _read(self, rows: Any) -> Iterator[tuple[Any, RowRefused | None]]:
        """Yield values, in order; a row that cannot be encoded alone, with a null. They are found by halves."""
        try:
            yield self._values(rows.drop_columns(split_origin(rows.schema.names)[1])), None
        except (CodecError, RecordError, ColumnTypeError) as error:
            if rows.num_rows == 1:
                row = rows.to_pylist()[0]
                yield pa.nulls(1, pa.binary()), RowRefused(f"{self.reason}: {_write_reason(error)}", row)
                return
            middle = rows.num_rows // 2
            yield from self._read(rows.slice(0, middle))
            yield from self._read(rows.slice(middle))

    def _values(self, rows: Any) -> Any:
        codec = _codec(self)
        if self.format is ValueFormat.JSON:
            start = pa.scalar(frame(codec.writer()[0]), pa.binary())
            return pc.binary_join_element_wise(start, rows.column(TEXT).cast(pa.binary()), b"")
        if self.format is ValueFormat.PROTOBUF:
            from tailrace.spark.connector.topic.protobuf_value import ProtobufColumns

            return ProtobufColumns(codec).encode(rows)
        return _joined(codec.encode_column(rows))


def _codec(user: ValueDecoder | ValueEncoder) -> Any:
    schema = user.schema_id if isinstance(user, ValueDecoder) else user.schema
    return _kept_codec(os.getpid(), user.format, user.registry, user.topic, schema)


@lru_cache(SPARK_CLUSTERS_KEPT_MAX)
def _kept_codec(_pid: int, kind: ValueFormat, settings: RegistrySettings, topic: str, schema: int | str) -> Any:
    """Return the codec of this process; a forked worker must not use the connections of its parent."""
    make = getattr(tailrace.schema, _CODECS[kind])
    registry = Registry.from_config(settings)
    if isinstance(schema, int):
        return make(registry, topic, schema_id=schema)
    return make(registry, topic, schema=schema, auto_register=False)


def _fit(table: Any, columns: Any) -> Any:
    """Return the table with the columns of the query: Spark has one unit of time, and JSON may lack a column."""
    arrays = [
        table.column(field.name).cast(field.type, safe=not _has_time(field.type))
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in columns
    ]
    return pa.table(arrays, schema=columns)


def _has_time(type_: Any) -> bool:
    """Return whether a type holds times, of which Spark drops the nanoseconds."""
    if pa.types.is_nested(type_):
        return any(_has_time(type_.field(index).type) for index in range(type_.num_fields))
    return bool(pa.types.is_temporal(type_))


def _one_batch(table: Any, row_count: int) -> Any:
    if not table.num_columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * row_count, pa.struct([])))
    return pa.RecordBatch.from_arrays([_joined(column) for column in table.columns], schema=table.schema)


def _joined(column: Any) -> Any:
    """Return a chunked column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _kind(error: Exception) -> str:
    """Return which of `REASONS` an error is."""
    if isinstance(error, RegistryError):
        return UNKNOWN_SCHEMA
    return DOES_NOT_FIT if isinstance(error, UnresolvedValue | InvalidRow) else NOT_A_VALUE


def _write_reason(error: Exception) -> str:
    """Return why a row cannot be encoded, without its place in the batch."""
    return error.fault.text if isinstance(error, AvroValueError) else _reason(error)


def _reason(error: Exception) -> str:
    """Return what is wrong with a value, without its row in the column."""
    if isinstance(error, AvroValueError):
        return f"not a valid Avro value: {error.fault.text}"
    if isinstance(error, UnresolvedValue):
        return f"the value does not fit the reader's schema: {error.reason}"
    if isinstance(error, InvalidRow):
        return error.reason
    if isinstance(error, RegistryError):
        return f"the schema of the value is unknown: {error.message}"
    return str(error)
