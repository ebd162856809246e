"""The speed of converting records to Arrow columns and back: `python -m bench.arrow_codec`.

Each figure is the best of several rounds in CPU time of one thread, so that other work on the machine matters
little. Nothing is sent: fetches and tables are in memory. For comparison, readers and writers that create an object
for each record are measured: aiokafka's, which is in Cython and does about what other clients do before the user
gets a message, and Tailrace's own in Python.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from bench import machine
from tailrace.records.arrow import assembly as arrow_assembly
from tailrace.records.arrow import encode as arrow_encode
from tailrace.records.arrow import scan as arrow_scan
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.encode import RowEncoder
from tailrace.records.arrow.fill import fill_columns_python
from tailrace.records.arrow.partition import group_rows, partition_keys
from tailrace.records.arrow.row import PythonRowWriter
from tailrace.records.batch import assign_offsets
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.record import read_batches, read_records

VALUE_SIZE = 100
TIMESTAMP_MS = 1_700_000_000_000
LARGE_BATCH = 1_000_000
SMALL_BATCH = 16_384  # the default batch.size of Kafka's producer
FOUR = ["key", "value", "offset", "timestamp"]
PARTITION_COUNT = 8
SLOW_ROWS = 20_000  # for cases that take a microsecond or more for each record


class Case(NamedTuple):
    """One row of the table."""

    name: str
    record_count: int
    run: Callable[[], object]


def make_table(row_count: int) -> pa.RecordBatch:
    """Return rows with keys of 12 bytes and values of hexadecimal digits, which compress about twofold."""
    rng = random.Random(row_count)
    return pa.record_batch(
        {
            "key": pa.array([b"key-%08d" % index for index in range(row_count)], pa.binary()),
            "value": pa.array([rng.randbytes(VALUE_SIZE // 2).hex().encode() for _ in range(row_count)], pa.binary()),
            "timestamp": pa.array([TIMESTAMP_MS + index // 10 for index in range(row_count)], pa.int64()).cast(
                pa.timestamp("ms", "UTC")
            ),
        }
    )


def encode_all(table: pa.RecordBatch, size_bytes_max: int, compression: Compression = Compression.NONE) -> list[Any]:
    """Encode all rows in order, and return the batches."""
    encoder = RowEncoder(table, timestamp_ms=TIMESTAMP_MS)
    batches, start = [], 0
    while start < encoder.row_count:
        encoded = encoder.encode(start, size_bytes_max=size_bytes_max, compression=compression)
        batches.append(encoded.batch)
        start += encoded.row_count
    return batches


def make_fetch(table: pa.RecordBatch, size_bytes_max: int, compression: Compression = Compression.NONE) -> bytes:
    """Return the data that a broker would send for the rows."""
    data, offset = bytearray(), 0
    for batch in encode_all(table, size_bytes_max, compression):
        position = len(data)
        data += batch
        assign_offsets(data, position, offset, 0)
        offset += int.from_bytes(batch[57:61], "big")
    return bytes(data)


def in_python(run: Callable[[], object]) -> Callable[[], object]:
    """Return the function with the Python twins instead of the native code."""

    def patched() -> object:
        with (
            mock.patch.object(arrow_assembly, "fill_columns", fill_columns_python),
            mock.patch.object(arrow_scan, "_scan_native", None),
            mock.patch.object(arrow_encode, "make_row_writer", PythonRowWriter),
        ):
            return run()

    return patched


def decode_cases(row_count: int) -> Iterator[Case]:
    """Yield the cases that decode fetches of large and usual batches, to columns and to objects."""
    table = make_table(row_count)

    def decode(data: bytes, columns: list[str] | None = None) -> Callable[[], object]:
        decoder = ColumnDecoder("page_views", 0, *([columns] if columns else []))
        return lambda: sum(decoded.record_batch.num_rows for decoded in decoder.decode(data))

    for label, size_bytes in (("1 MB", LARGE_BATCH), ("16 KiB", SMALL_BATCH)):
        data = make_fetch(table, size_bytes)
        yield Case(f"key, value, offset, timestamp; batches of {label}", row_count, decode(data, FOUR))
        yield Case(f"all 8 columns; batches of {label}", row_count, decode(data))
        yield Case(f"value only; batches of {label}", row_count, decode(data, ["value"]))
    for codec in list(Compression)[1:]:
        data = make_fetch(table, LARGE_BATCH, codec)
        yield Case(f"the four; batches of 1 MB, {codec.config_name}", row_count, decode(data, FOUR))
    few = make_table(SLOW_ROWS)
    tiny = make_fetch(few, 1)
    yield Case("the four; batches of one record", SLOW_ROWS, decode(tiny, FOUR))
    data = make_fetch(few, SMALL_BATCH)
    yield Case("the four, the twin in Python", SLOW_ROWS, in_python(decode(data, FOUR)))
    yield Case("objects: aiokafka, Cython", SLOW_ROWS, lambda: read_objects(data))
    yield Case("objects: `read_records`, Python", SLOW_ROWS, lambda: read_own_objects(data))


def read_objects(data: bytes) -> list[tuple[Any, ...]]:
    found = []
    for position, header in read_batches(data):
        batch = DefaultRecordBatch(data[position : position + header.size_bytes])
        assert batch.validate_crc()
        found += [(record.key, record.value, record.offset, record.timestamp) for record in batch]
    return found


def read_own_objects(data: bytes) -> list[Any]:
    return [record for position, _ in read_batches(data) for record in read_records(data, position)]


def encode_cases(row_count: int) -> Iterator[Case]:
    """Yield the cases that encode tables and objects to batches."""
    table = make_table(row_count)
    for label, size_bytes in (("1 MB", LARGE_BATCH), ("16 KiB", SMALL_BATCH)):
        run = partial(encode_all, table, size_bytes)
        yield Case(f"key, value, timestamp; batches of {label}", row_count, run)
    yield Case("value only; batches of 1 MB", row_count, partial(encode_all, table.select(["value"]), LARGE_BATCH))
    for codec in list(Compression)[1:]:
        run = partial(encode_all, table, LARGE_BATCH, codec)
        yield Case(f"the three; batches of 1 MB, {codec.config_name}", row_count, run)
    yield Case("hash of the keys", row_count, lambda: partition_keys(table["key"], PARTITION_COUNT))
    yield Case(f"hash, group and encode for {PARTITION_COUNT} partitions", row_count, lambda: encode_by_key(table))
    few = make_table(SLOW_ROWS)
    yield Case("the three, the twin in Python", SLOW_ROWS, in_python(lambda: encode_all(few, SMALL_BATCH)))
    rows = [(row["key"], row["value"], row["timestamp"]) for row in _plain_rows(few)]
    yield Case("objects: aiokafka, Cython", SLOW_ROWS, lambda: write_objects(rows))
    yield Case("objects: `BatchBuilder`, Python", SLOW_ROWS, lambda: write_own_objects(rows))


def _plain_rows(table: pa.RecordBatch) -> list[dict[str, Any]]:
    index = table.schema.get_field_index("timestamp")
    numbers = table.column(index).cast(pa.int64())
    return list(table.set_column(index, "timestamp", numbers).to_pylist())


def encode_by_key(table: pa.RecordBatch) -> None:
    partitions = partition_keys(table["key"], PARTITION_COUNT)
    encoder = RowEncoder(table)
    for rows in group_rows(partitions, PARTITION_COUNT):
        start = 0
        while start < len(rows):
            start += encoder.encode(start, rows=rows, size_bytes_max=LARGE_BATCH).row_count


def write_objects(rows: list[tuple[bytes, bytes, int]]) -> list[bytes]:
    batches: list[bytes] = []
    builder, offset = _their_builder(), 0
    for key, value, timestamp in rows:
        if builder.append(offset, timestamp, key, value, []) is None:
            batches.append(builder.build())
            builder, offset = _their_builder(), 0
            builder.append(offset, timestamp, key, value, [])
        offset += 1
    return [*batches, builder.build()]


def _their_builder() -> Any:
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=SMALL_BATCH,
    )


def write_own_objects(rows: list[tuple[bytes, bytes, int]]) -> list[bytes]:
    batches: list[bytes] = []
    builder = BatchBuilder(size_bytes_max=SMALL_BATCH)
    for key, value, timestamp in rows:
        if not builder.append(timestamp, key, value):
            batches.append(builder.build())
            builder = BatchBuilder(size_bytes_max=SMALL_BATCH)
            builder.append(timestamp, key, value)
    return [*batches, builder.build()]


def best_seconds(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest CPU time of one call."""
    run()
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a fetch or table (default 200000)")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(machine.table(machine.conditions("pyarrow", "aiokafka")))
    for title, cases in (("decode", decode_cases), ("encode", encode_cases)):
        print(f"| {title}, values of {VALUE_SIZE} B, keys of 12 B | M records/s | ns a record |\n| --- | ---: | ---: |")
        for case in cases(arguments.rows):
            seconds = best_seconds(case.run, arguments.rounds)
            rate, cost = case.record_count / seconds / 1e6, seconds / case.record_count * 1e9
            print(f"| {case.name} | {rate:.2f} | {cost:,.0f} |", flush=True)
        print()


if __name__ == "__main__":
    main()
