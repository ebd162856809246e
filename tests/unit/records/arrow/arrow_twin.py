"""The Arrow codec with its twins in Python or in C, and fetches to try them on."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from tests.unit.records.made_batch import RecordFields

from tailrace.records.arrow import assembly as arrow_assembly
from tailrace.records.arrow import encode as arrow_encode
from tailrace.records.arrow import partition as arrow_partition
from tailrace.records.arrow import scan as arrow_scan
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.fill import fill_columns_python
from tailrace.records.arrow.partition import group_rows_python, hash_keys_python
from tailrace.records.arrow.row import PythonRowWriter
from tailrace.records.arrow.schema import schema_of
from tailrace.records.batch import Buffer, assign_offsets
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.error import RecordError
from tailrace.records.record import Record
from tailrace.records.transaction_filter import AbortedTransaction

try:
    from tailrace.records import _native
except ImportError:
    _native = None

native: Any = _native  # it has no types

needs_native = pytest.mark.skipif(native is None, reason="the native module is not built here")
Failure: TypeAlias = tuple[type[RecordError], str]
TWINS = ["python", pytest.param("native", marks=needs_native)]


@contextlib.contextmanager
def twin(name: str) -> Iterator[None]:
    """Use one of the twins for everything, whatever the environment chose."""
    is_native = name == "native"
    with (
        mock.patch.object(arrow_assembly, "fill_columns", native.fill_columns if is_native else fill_columns_python),
        mock.patch.object(arrow_scan, "_scan_native", native.scan_plain_batches if is_native else None),
        mock.patch.object(arrow_encode, "make_row_writer", native.RowWriter if is_native else PythonRowWriter),
        mock.patch.object(arrow_partition, "_hash_keys", native.hash_keys if is_native else hash_keys_python),
        mock.patch.object(arrow_partition, "_group_rows", native.group_rows if is_native else group_rows_python),
    ):
        yield


header_lists = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
fields = st.none() | st.binary(max_size=60)
timestamps_ms = st.integers(-1, 2_000) | st.integers(-1, 2**52)
record_fields = st.tuples(timestamps_ms, fields, fields, header_lists)
record_lists = st.lists(record_fields, min_size=1, max_size=8)
fetches = st.lists(st.tuples(st.sampled_from(list(Compression)), record_lists), min_size=1, max_size=4)


def build_batch(records: Iterable[RecordFields], codec: Compression = Compression.NONE, **options: Any) -> bytes:
    builder = BatchBuilder(codec, **options)
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()


def join(batches: Iterable[bytes | bytearray], base_offset: int = 0) -> bytearray:
    """Batches one after the other with their offsets, as a broker sends them."""
    data = bytearray()
    for batch in batches:
        position = len(data)
        data += batch
        assign_offsets(data, position, base_offset, 0)
        base_offset += int.from_bytes(batch[57:61], "big")
    return data


def build_fetch(contents: Iterable[tuple[Compression, list[RecordFields]]], base_offset: int = 0) -> bytearray:
    return join((build_batch(records, codec) for codec, records in contents), base_offset)


def decode_all(
    decoder: ColumnDecoder,
    buffer: Buffer,
    start_offset: int = 0,
    end_offset: int | None = None,
    aborted: Iterable[AbortedTransaction] = (),
) -> tuple[pa.Table, int | None, Failure | None]:
    """All the records, the next offset, and the error at which they end."""
    batches, next_offset, failure = [], None, None
    try:
        for record_batch, next_offset in decoder.decode(buffer, start_offset, end_offset, aborted):  # noqa: B007  the last one is returned
            record_batch.validate(full=True)
            assert record_batch.schema.equals(decoder.schema, check_metadata=True)
            batches.append(record_batch)
    except RecordError as error:
        failure = (type(error), str(error))
    return pa.Table.from_batches(batches, decoder.schema), next_offset, failure


def failure_of(decoder: ColumnDecoder, buffer: Buffer) -> Failure:
    """The error at which records end that have one."""
    failure = decode_all(decoder, buffer)[2]
    assert failure is not None
    return failure


def row_of(record: Record, topic: str, partition: int, timestamp_type: int = 0) -> dict[str, Any]:
    """A record as a row of all columns, with its timestamp in microseconds."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table with timestamps as numbers, because Python's own end with the year 9999."""
    if "timestamp" in table.schema.names:
        index = table.schema.get_field_index("timestamp")
        table = table.set_column(index, "timestamp", table.column(index).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def table_of(records: Iterable[RecordFields]) -> pa.RecordBatch:
    """Records to be written, as columns."""
    rows = [
        {
            "key": key,
            "value": value,
            "timestamp": timestamp * 1000,
            "headers": [{"key": name, "value": content} for name, content in headers] or None,
        }
        for timestamp, key, value, headers in records
    ]
    schema = schema_of(["key", "value", "timestamp", "headers"])
    columns = [
        pa.array([row[name] for row in rows], pa.int64()).cast(schema.field(name).type)
        if name == "timestamp"
        else pa.array([row[name] for row in rows], schema.field(name).type)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
