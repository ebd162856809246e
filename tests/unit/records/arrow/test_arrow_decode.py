"""What a fetch brings as columns, with either twin."""

import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.arrow.arrow_twin import (
    TWINS,
    build_batch,
    build_fetch,
    decode_all,
    failure_of,
    fetches,
    join,
    needs_native,
    row_of,
    rows_of,
    twin,
)
from tests.unit.records.made_batch import RecordFields, make_batch

from tailrace.records.arrow import scan as arrow_scan
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.schema import ALL_COLUMNS, schema_of
from tailrace.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    TimestampType,
    read_header,
    set_log_append_time,
    set_max_timestamp,
    write_crc,
)
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.error import CorruptBatch, DecompressionLimit, LegacyBatch
from tailrace.records.record import read_batches, read_records
from tailrace.records.varint import write_varint

RECORDS: list[RecordFields] = [
    (1_700_000_000_000, b"key", b"value", [("name", b"header"), ("null", None), ("", b"")]),
    (1_700_000_000_005, None, b"v" * 70_000, []),
    (1_699_999_999_000, b"", None, [("schlüssel", "größe".encode())]),
    (-1, None, b"", []),
]


@pytest.fixture(params=TWINS, autouse=True)
def _twin(request: pytest.FixtureRequest) -> Iterator[None]:
    with twin(request.param):
        yield


def offsets(table: pa.Table) -> list[int]:
    found: list[int] = table.column("offset").to_pylist()
    return found


def plain(count: int, **options: Any) -> bytes:
    return build_batch([(1_000 + index, b"k", b"v%d" % index, []) for index in range(count)], **options)


def marker(producer_id: int, outcome: ControlType) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(outcome, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1
    )


def raw_record(*parts: int | bytes) -> bytes:
    body = bytearray(1)
    for part in parts:
        if isinstance(part, bytes):
            body += part
        else:
            write_varint(body, part)
    output = bytearray()
    write_varint(output, len(body))
    return bytes(output + body)


def test_every_column(codec: Compression) -> None:
    data = join([build_batch(RECORDS, codec)], base_offset=40)
    table, next_offset, failure = decode_all(ColumnDecoder("page_views", 3), data)
    assert (next_offset, failure) == (44, None)
    assert rows_of(table) == [row_of(record, "page_views", 3) for record in read_records(data)]
    assert table.schema == schema_of()


def test_schema_is_that_of_spark() -> None:
    assert str(schema_of()) == (
        "key: binary\nvalue: binary\ntopic: string\npartition: int32\noffset: int64\n"
        "timestamp: timestamp[us, tz=UTC]\ntimestampType: int32\n"
        "headers: list<element: struct<key: string, value: binary>>\n"
        "  child 0, element: struct<key: string, value: binary>\n"
        "      child 0, key: string\n      child 1, value: binary"
    )
    assert all(field.nullable for field in schema_of())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: Callable[[bytes], Buffer]) -> None:
    assert offsets(decode_all(ColumnDecoder("t", 0), kind(plain(3)))[0]) == [0, 1, 2]


def test_columns_in_the_order_of_the_caller() -> None:
    table = decode_all(ColumnDecoder("t", 7, ["value", "partition", "key"]), plain(2))[0]
    assert table.to_pylist() == [
        {"value": b"v0", "partition": 7, "key": b"k"},
        {"value": b"v1", "partition": 7, "key": b"k"},
    ]


def test_columns_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"no column 'values'; the columns are key, value, topic"):
        ColumnDecoder("t", 0, ["key", "values"])
    with pytest.raises(ValueError, match=r"at least one column"):
        ColumnDecoder("t", 0, [])
    with pytest.raises(ValueError, match=r"named twice"):
        ColumnDecoder("t", 0, ["key", "key"])


@settings(max_examples=60, deadline=None)
@given(
    fetches,
    st.sets(st.sampled_from(ALL_COLUMNS), min_size=1),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 2_000),
)
def test_like_records_one_by_one(
    contents: list[tuple[Compression, list[RecordFields]]],
    columns: set[str],
    start_offset: int,
    end_offset: int,
    chunk_bytes_max: int,
) -> None:
    data = build_fetch(contents, base_offset=5)
    expected = [
        row_of(record, "t", 1)
        for position, _ in read_batches(data)
        for record in read_records(data, position)
        if start_offset <= record.offset < end_offset
    ]
    decoder = ColumnDecoder("t", 1, sorted(columns), chunk_bytes_max=chunk_bytes_max)
    table, next_offset, failure = decode_all(decoder, data, start_offset, end_offset)
    assert rows_of(table) == [{name: row[name] for name in sorted(columns)} for row in expected]
    assert failure is None
    last = [header for _, header in read_batches(data)][-1]
    assert next_offset == max(start_offset, min(last.next_offset, end_offset))


# What is left out.


def test_records_before_the_wanted_offset() -> None:
    data = join([plain(3), plain(3), plain(3)], base_offset=10)
    table, next_offset, _ = decode_all(ColumnDecoder("t", 0), data, 14)
    assert (offsets(table), next_offset) == ([14, 15, 16, 17, 18], 19)
    table, next_offset, _ = decode_all(ColumnDecoder("t", 0), data, 30)
    assert (offsets(table), next_offset) == ([], 30)


def test_records_from_the_end_offset_on() -> None:
    data = join([plain(3), plain(3), plain(3)], base_offset=10)
    table, next_offset, _ = decode_all(ColumnDecoder("t", 0), data, 11, 14)
    assert (offsets(table), next_offset) == ([11, 12, 13], 14)
    table, next_offset, _ = decode_all(ColumnDecoder("t", 0), data, 11, 13)
    assert (offsets(table), next_offset) == ([11, 12], 13)


def test_batches_from_the_end_offset_on_are_not_looked_at() -> None:
    data = join([plain(3), plain(3), plain(3)])
    data[-1] ^= 1
    assert decode_all(ColumnDecoder("t", 0), data, 0, 6)[1:] == (6, None)


def test_nothing_is_read_after_a_batch_that_reaches_the_end_offset() -> None:
    """The shortcut went on to batches with lower offsets, which no log has but a damaged fetch may. The twins then
    differed in what they found there."""
    data = make_batch(last_offset_delta=16) + make_batch(base_offset=1, record_count=9)
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0), data, 1, 15)
    assert (offsets(table), next_offset, failure) == ([1, 2], 15, None)


def test_a_last_batch_that_is_cut() -> None:
    first, data = len(plain(2)), join([plain(2), plain(2)])
    for size in range(first, len(data)):
        table, next_offset, failure = decode_all(ColumnDecoder("t", 0), data[:size])
        assert (offsets(table), next_offset, failure) == ([0, 1], 2, None)
    for size in range(first):
        assert decode_all(ColumnDecoder("t", 0), data[:size])[1:] == (None, None)


def test_a_batch_that_compaction_emptied() -> None:
    batch = bytearray(plain(3))[:HEADER_SIZE]
    batch[8:12] = (HEADER_SIZE - LOG_OVERHEAD).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    write_crc(batch, 0, len(batch))
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0), bytes(batch))
    assert (table.num_rows, next_offset, failure) == (0, 3, None)


def test_offsets_that_compaction_removed() -> None:
    body = raw_record(0, 2, -1, -1, 0) + raw_record(0, 6, -1, -1, 0)
    batch = make_batch(body=body, record_count=2, last_offset_delta=9)
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0), batch, 3)
    assert (offsets(table), next_offset, failure) == ([6], 10, None)


# Transactions.


def transactional(count: int, producer_id: int) -> bytes:
    return plain(count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_markers_are_never_shown() -> None:
    data = join([transactional(2, 1), marker(1, ControlType.COMMIT), plain(1), marker(2, ControlType.ABORT)])
    table, next_offset, _ = decode_all(ColumnDecoder("t", 0), data)
    assert (offsets(table), next_offset) == ([0, 1, 3], 5)


def test_aborted_transactions_are_left_out() -> None:
    data = join(
        [
            transactional(2, 1),  # 0, 1: aborted
            transactional(2, 2),  # 2, 3: committed
            plain(1),  # 4
            marker(1, ControlType.ABORT),  # 5
            transactional(1, 1),  # 6: committed
            marker(2, ControlType.COMMIT),  # 7
            marker(1, ControlType.COMMIT),  # 8
            transactional(1, 2),  # 9: aborted
            marker(2, ControlType.ABORT),  # 10
            transactional(1, 2),  # 11: committed
        ]
    )
    aborted = [SimpleNamespace(producer_id=2, first_offset=9), SimpleNamespace(producer_id=1, first_offset=0)]
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0), data, aborted=aborted)
    assert (offsets(table), next_offset, failure) == ([2, 3, 4, 6, 11], 12, None)
    assert offsets(decode_all(ColumnDecoder("t", 0), data)[0]) == [0, 1, 2, 3, 4, 6, 9, 11]


# Timestamps.


def test_log_append_time_is_that_of_the_batch() -> None:
    stamped = bytearray(plain(2))
    set_log_append_time(stamped, 0, 77)
    data = join([plain(1), stamped, plain(1)])
    chunks = [decoded.record_batch for decoded in ColumnDecoder("t", 0).decode(data)]
    table = pa.Table.from_batches(chunks)
    assert [row["timestamp"] for row in rows_of(table)] == [1_000_000, 77_000, 77_000, 1_000_000]
    assert table.column("timestampType").to_pylist() == [0, 1, 1, 0]
    assert [chunk.num_rows for chunk in chunks] == [1, 2, 1]


@pytest.mark.parametrize("timestamp", [2**63 // 1000 + 1, 2**63 - 1])
def test_a_timestamp_that_microseconds_cannot_hold(timestamp: int) -> None:
    data = build_batch([(timestamp, None, b"v", [])])
    failure = decode_all(ColumnDecoder("t", 0), data)[2]
    assert failure == (
        CorruptBatch,
        "t-0: the batch at offset 0: record 0: the timestamp does not fit 64 bits in microseconds",
    )
    assert decode_all(ColumnDecoder("t", 0, ["value"]), data)[2] is None


def test_a_log_append_time_that_microseconds_cannot_hold() -> None:
    data = bytearray(plain(1))
    set_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, -(2**63))
    assert decode_all(ColumnDecoder("t", 0), data)[2] is not None


def test_a_timestamp_delta_that_overflows() -> None:
    batch = make_batch(body=raw_record(2**62, 0, -1, -1, 0), record_count=1, base_timestamp=2**62)
    assert "does not fit 64 bits" in failure_of(ColumnDecoder("t", 0), batch)[1]


# Text.


def test_header_keys_that_are_not_utf_8_are_mended() -> None:
    key = b"a\xff\xc3b"
    body = raw_record(0, 0, -1, -1, 1, len(key), key, -1)
    batch = make_batch(body=body, record_count=1, last_offset_delta=0)
    table = decode_all(ColumnDecoder("t", 0), batch)[0]
    assert table.column("headers").to_pylist() == [[{"key": "a��b", "value": None}]]
    assert [name for name, _ in next(read_records(batch)).headers] == ["a��b"]


def test_every_negative_length_is_null_as_in_kafka() -> None:
    body = raw_record(0, 0, -7, -(2**31), 1, 1, b"h", -2)
    batch = make_batch(body=body, record_count=1, last_offset_delta=0)
    assert decode_all(ColumnDecoder("t", 0, ["key", "value", "headers"]), batch)[0].to_pylist() == [
        {"key": None, "value": None, "headers": [{"key": "h", "value": None}]}
    ]


# Damage.


def test_the_records_before_the_damage_are_handed_out() -> None:
    data = join([plain(2), plain(2), plain(2)], base_offset=8)
    data[-1] ^= 1
    table, next_offset, failure = decode_all(ColumnDecoder("page_views", 2), data)
    assert (offsets(table), next_offset) == ([8, 9, 10, 11], 12)
    assert failure == (CorruptBatch, "page_views-2: the batch at offset 12: its checksum is wrong")


def test_the_records_before_a_damaged_record_are_handed_out() -> None:
    damaged = make_batch(body=raw_record(0, 0, -1, -1, 0) + raw_record(0, 1, 9, b"short"), record_count=2)
    data = join([plain(2), damaged])
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0), data)
    assert (offsets(table), next_offset) == ([0, 1], 2)
    assert failure == (CorruptBatch, "t-0: the batch at offset 2: record 1: the length of a field is invalid")
    assert decode_all(ColumnDecoder("t", 0), damaged)[1] is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_offset": -1}, "last offset delta"),
        ({"base_offset": 2**63 - 3}, "last offset delta"),
        ({"last_offset_delta": -1}, "last offset delta"),
        ({"record_count": -1}, "claims -1 records"),
        ({"record_count": 2**31 - 1}, "claims 2147483647 records"),
        ({"record_count": 4}, "fewer records"),
        ({"record_count": 2}, "bytes follow"),
        ({"last_offset_delta": 1}, "offset is outside"),
        ({"attributes": 6}, "unknown compression codec 6"),
        ({"attributes": 4}, "zstd"),
        ({"crc": 1}, "checksum"),
    ],
)
def test_headers_that_lie(fields: dict[str, Any], message: str) -> None:
    table, _, failure = decode_all(ColumnDecoder("t", 0), make_batch(**fields))
    assert table.num_rows == 0
    assert failure is not None
    assert failure[0] is CorruptBatch
    assert message in failure[1]


def test_checksums_need_not_be_looked_at() -> None:
    assert decode_all(ColumnDecoder("t", 0, check_crcs=False), make_batch(crc=1))[0].num_rows == 3


def test_old_and_unknown_formats() -> None:
    for magic, kind in ((1, LegacyBatch), (3, CorruptBatch)):
        batch = bytearray(make_batch())
        batch[16] = magic
        failure = failure_of(ColumnDecoder("t", 0), batch)
        assert failure[0] is kind
        assert failure[1].startswith("t-0: ")


def test_no_more_is_decompressed_than_allowed(packing_codec: Compression) -> None:
    data = join([plain(1), build_batch([(0, None, bytes(100_000), [])], packing_codec)])
    table, next_offset, failure = decode_all(ColumnDecoder("t", 0, decompressed_bytes_max=50_000), data)
    assert failure is not None
    assert (table.num_rows, next_offset, failure[0]) == (1, 1, DecompressionLimit)
    assert "t-0: the batch at offset 1: " in failure[1]


# Chunks.


def test_batches_come_together_up_to_a_size(codec: Compression) -> None:
    data = join([plain(10, codec=codec)] * 12)
    size = len(plain(10)) - HEADER_SIZE
    decoder = ColumnDecoder("t", 0, chunk_bytes_max=5 * size)
    assert [(decoded.record_batch.num_rows, decoded.next_offset) for decoded in decoder.decode(data)] == [
        (50, 50),
        (50, 100),
        (20, 120),
    ]
    one_each = ColumnDecoder("t", 0, chunk_bytes_max=1).decode(data)
    assert [decoded.record_batch.num_rows for decoded in one_each] == [10] * 12


def test_a_chunk_is_opened_when_it_is_asked_for() -> None:
    data = join([plain(1), plain(1)])
    data[-1] ^= 1
    decoded = ColumnDecoder("t", 0, chunk_bytes_max=1).decode(data)
    assert next(decoded).next_offset == 1
    with pytest.raises(CorruptBatch):
        next(decoded)


def test_rows_of_a_chunk_are_as_many_as_a_column_of_the_topic_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic's name for each row may need more than the 31 bits of an Arrow offset where nothing else does."""
    from tailrace.records.arrow import decode as arrow_decode

    monkeypatch.setattr(arrow_decode, "INT32_MAX", 1_000)
    data = join([plain(4)] * 3)
    decoder = ColumnDecoder("t" * 200, 0)
    assert [decoded.record_batch.num_rows for decoded in decoder.decode(data)] == [4, 4, 4]
    assert [decoded.record_batch.num_rows for decoded in ColumnDecoder("t", 0).decode(data)] == [12]
    failure = failure_of(ColumnDecoder("t" * 500, 0), data)
    assert "4 records are too many for one column" in failure[1]


def test_a_chunk_is_never_larger_than_a_column_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    from tailrace.records.arrow import decode as arrow_decode

    size = len(plain(10)) - HEADER_SIZE
    monkeypatch.setattr(arrow_decode, "INT32_MAX", 2 * size)
    decoded = ColumnDecoder("t", 0, chunk_bytes_max=2**40).decode(join([plain(10)] * 3))
    assert [part.record_batch.num_rows for part in decoded] == [20, 10]


def test_buffers_are_cut_to_size() -> None:
    (decoded,) = ColumnDecoder("t", 0, ["key", "value", "offset", "headers"]).decode(plain(1_000), 990)
    assert decoded.record_batch.num_rows == 10
    assert decoded.record_batch.get_total_buffer_size() < 2_000


@needs_native
def test_the_shortcut_takes_plain_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then is it worth having; everything else goes one by one."""
    headers: list[BatchHeader] = []

    def read_nothing(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
        headers.append(read_header(buffer))
        return iter(())

    monkeypatch.setattr(arrow_scan, "read_batches", read_nothing)
    with twin("native"):
        assert (
            decode_all(ColumnDecoder("t", 0), join([plain(3)] * 5) + struct.pack(">qiib", 0, 999, 0, 2) + bytes(44))[
                0
            ].num_rows
            == 15
        )
    assert [header.batch_length for header in headers] == [999]
