"""Columns as batches of records, with either twin."""

import warnings
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.arrow.arrow_twin import TWINS, build_batch, decode_all, record_lists, table_of, twin
from tests.unit.records.made_batch import RecordFields

from tailrace.records.arrow.column import ColumnTypeError
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.encode import RowEncoder
from tailrace.records.arrow.schema import HEADERS_TYPE
from tailrace.records.batch import HEADER_SIZE, Buffer, check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.record import read_records
from tailrace.records.validation import validate_batch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python loads its schemas the old way
    from kafka.record.default_records import DefaultRecordBatchBuilder

VALUES = [b"value", None, b"", b"v" * 300]


@pytest.fixture(params=TWINS, autouse=True)
def _twin(request: pytest.FixtureRequest) -> Iterator[None]:
    with twin(request.param):
        yield


def encode_all(encoder: RowEncoder, compression: Compression, size_bytes_max: int) -> list[bytearray]:
    batches, start = [], 0
    while start < encoder.row_count:
        encoded = encoder.encode(start, compression=compression, size_bytes_max=size_bytes_max)
        batches.append(encoded.batch)
        start += encoded.row_count
    return batches


def values_of(batch: Buffer) -> list[bytes | None]:
    return [record.value for record in read_records(batch)]


@settings(max_examples=80, deadline=None)
@given(record_lists)
def test_the_bytes_are_those_of_the_builder(records: list[RecordFields]) -> None:
    encoded = RowEncoder(table_of(records)).encode()
    assert encoded.row_count == len(records)
    assert encoded.batch == build_batch(records)


@settings(max_examples=40, deadline=None)
@given(record_lists.filter(lambda records: all(record[0] >= 0 for record in records)))
def test_the_bytes_are_those_of_kafka_python(records: list[RecordFields]) -> None:
    """All but the leader epoch, which kafka-python leaves 0 where Kafka's producer writes -1."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=11,
        producer_epoch=2,
        base_sequence=4,
        batch_size=1 << 20,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers)
    theirs = builder.build()
    ours = RowEncoder(table_of(records)).encode(producer_id=11, producer_epoch=2, base_sequence=4).batch
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]


@settings(max_examples=60, deadline=None)
@given(record_lists, st.sampled_from(list(Compression)), st.integers(0, 400))
def test_table_to_batches_to_table(records: list[RecordFields], codec: Compression, size_bytes_max: int) -> None:
    before = table_of(records)
    batches = encode_all(RowEncoder(before), codec, size_bytes_max)
    after = []
    for batch in batches:
        table, _, failure = decode_all(ColumnDecoder("t", 0, before.schema.names), batch)
        assert failure is None
        after.append(table)
    assert pa.concat_tables(after).equals(pa.Table.from_batches([before]))


def test_a_broker_takes_it(codec: Compression) -> None:
    records = [(1_000 + index, b"k", b"value" * index, [("h", b"x")]) for index in range(50)]
    batch = RowEncoder(table_of(records)).encode(compression=codec, producer_id=5, producer_epoch=1, base_sequence=9)
    valid = validate_batch(bytes(batch.batch), size_bytes_max=1_000_000)
    assert (valid.header.compression, valid.header.record_count) == (codec, 50)
    assert (valid.header.producer_id, valid.header.producer_epoch, valid.header.base_sequence) == (5, 1, 9)
    assert valid.max_timestamp == valid.header.max_timestamp == 1_049


def test_transactional_flag() -> None:
    encoder = RowEncoder(pa.record_batch({"value": [b"v"]}))
    assert not read_header(encoder.encode().batch).is_transactional
    batch = encoder.encode(is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0).batch
    assert read_header(batch).is_transactional
    assert check_crc(batch, 0, read_header(batch))


# How many rows.


def test_rows_are_cut_at_the_size() -> None:
    table = pa.record_batch({"value": pa.array([b"x" * 50] * 20)})
    whole = RowEncoder(table).encode()
    assert whole.row_count == 20
    assert RowEncoder(table).encode(size_bytes_max=len(whole.batch)).row_count == 20
    assert RowEncoder(table).encode(size_bytes_max=len(whole.batch) - 1).row_count == 19
    assert len(RowEncoder(table).encode(size_bytes_max=500).batch) <= 500


@settings(max_examples=60, deadline=None)
@given(record_lists, st.integers(0, 500))
def test_rows_are_cut_where_the_builder_stops(records: list[RecordFields], size_bytes_max: int) -> None:
    builder = BatchBuilder(size_bytes_max=size_bytes_max)
    for timestamp, key, value, headers in records:
        if not builder.append(timestamp, key, value, headers):
            break
    encoded = RowEncoder(table_of(records)).encode(size_bytes_max=size_bytes_max)
    assert encoded.row_count == builder.record_count
    assert encoded.batch == builder.build()


def test_a_part_of_the_rows() -> None:
    encoder = RowEncoder(pa.record_batch({"value": VALUES}))
    assert values_of(encoder.encode(1, 3).batch) == VALUES[1:3]
    assert values_of(encoder.encode(2).batch) == VALUES[2:]


def test_rows_by_number() -> None:
    encoder = RowEncoder(pa.record_batch({"value": VALUES}))
    rows = pa.array([3, 0, 0, 2], pa.int32())
    assert values_of(encoder.encode(rows=rows).batch) == [VALUES[3], VALUES[0], VALUES[0], VALUES[2]]
    assert values_of(encoder.encode(1, 3, rows=rows).batch) == [VALUES[0], VALUES[0]]
    assert values_of(encoder.encode(rows=rows[2:]).batch) == [VALUES[0], VALUES[2]]


@pytest.mark.parametrize("number", [-1, 4, 2**31 - 1])
def test_a_row_number_that_is_not_there(number: int) -> None:
    encoder = RowEncoder(pa.record_batch({"value": VALUES}))
    with pytest.raises(ValueError, match="row 1: the row number is out of range"):
        encoder.encode(rows=pa.array([0, number], pa.int32()))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 5), (2, 2), (3, 1), (4, None)])
def test_rows_that_are_not_there(start: int, stop: int | None) -> None:
    with pytest.raises(ValueError, match="no such rows"):
        RowEncoder(pa.record_batch({"value": VALUES})).encode(start, stop)


def test_row_numbers_of_another_type() -> None:
    encoder = RowEncoder(pa.record_batch({"value": VALUES}))
    for rows in (pa.array([0], pa.int64()), pa.array([0, None], pa.int32())):
        with pytest.raises(TypeError, match="int32"):
            encoder.encode(rows=rows)


# Types.


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pa.binary(3),
    ],
    ids=str,
)
def test_types_of_key_and_value(kind: pa.DataType) -> None:
    column = pa.array(["abc", None, "dë", "xyz"], pa.string())  # three bytes each, for the type of fixed size
    column = column.cast(kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    expected = [b"abc", None, "dë".encode(), b"xyz"]
    for array, wanted in ((column, expected), (column[1:3], expected[1:3])):
        batch = RowEncoder(pa.record_batch({"key": array, "value": array})).encode().batch
        assert [(record.key, record.value) for record in read_records(batch)] == list(zip(wanted, wanted, strict=True))


def test_columns_of_nothing_but_nulls() -> None:
    for nulls in (pa.nulls(2), pa.nulls(2, pa.binary()), pa.nulls(2, pa.int64())):
        table = pa.record_batch({"key": nulls, "value": nulls, "headers": pa.nulls(2), "timestamp": pa.nulls(2)})
        records = list(read_records(RowEncoder(table, timestamp_ms=7).encode().batch))
        assert [record[1:] for record in records] == [(7, None, None, ())] * 2


def test_only_the_value_must_be_there() -> None:
    assert values_of(RowEncoder(pa.record_batch({"value": VALUES})).encode().batch) == VALUES
    with pytest.raises(ValueError, match="column 'value' is missing; the columns are: key"):
        RowEncoder(pa.record_batch({"key": VALUES}))


@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_(), pa.list_(pa.binary()), pa.dictionary(pa.int8(), pa.int64())])
def test_types_of_no_use(kind: pa.DataType) -> None:
    column = pa.array([1], pa.int64()).dictionary_encode() if pa.types.is_dictionary(kind) else None
    column = column if column is not None else pa.array([[b"x"]] if pa.types.is_list(kind) else [1]).cast(kind)
    for name in ("key", "value"):
        with pytest.raises(ColumnTypeError, match=f"column '{name}' is .*; cast it to binary or string"):
            RowEncoder(pa.record_batch({"value": [b"v"]} | {name: column}))


def test_a_table_is_not_a_record_batch() -> None:
    with pytest.raises(TypeError, match=r"RecordBatch, got Table; see Table.to_batches"):
        RowEncoder(pa.table({"value": VALUES}))


# Headers.


def test_headers_that_are_null_empty_or_without_a_value() -> None:
    headers = [None, [], [{"key": "a", "value": None}, {"key": "", "value": b""}], [{"key": "ü", "value": b"x"}]]
    for kind in (HEADERS_TYPE, pa.large_list(HEADERS_TYPE.value_type)):
        column = pa.array(headers, kind)
        table = pa.record_batch({"value": VALUES, "headers": column})
        expected = [(), (), (("a", None), ("", b"")), (("ü", b"x"),)]
        assert [record.headers for record in read_records(RowEncoder(table).encode().batch)] == expected
        part = table.slice(2, 2)
        assert [record.headers for record in read_records(RowEncoder(part).encode().batch)] == expected[2:]


def test_headers_with_the_fields_the_other_way_round() -> None:
    kind = pa.list_(pa.struct([("value", pa.string()), ("key", pa.binary())]))
    table = pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": b"k", "value": "x"}]], kind)})
    assert next(read_records(RowEncoder(table).encode().batch)).headers == (("k", b"x"),)


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}])
def test_a_header_without_a_key(header: dict[str, bytes | None] | None) -> None:
    column = pa.array([[{"key": "a", "value": b""}], [header]], HEADERS_TYPE)
    encoder = RowEncoder(pa.record_batch({"value": [b"v", b"w"], "headers": column}))
    assert encoder.encode(0, 1).row_count == 1
    with pytest.raises(ValueError, match="row 1: a header has no key"):
        encoder.encode()
    with pytest.raises(ValueError, match="row 0: a header has no key"):
        RowEncoder(pa.record_batch({"value": [b"w"], "headers": column[1:]})).encode()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.list_(pa.struct([("key", pa.string())])), pa.list_(pa.int8())]
)
def test_headers_of_another_type(kind: pa.DataType) -> None:
    value = {"key": "a"} if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) else None
    column = pa.array([[value]] if pa.types.is_list(kind) else ["x"], kind)
    with pytest.raises(
        ColumnTypeError, match=r"column 'headers' is .* must be list<struct<key: string, value: binary>>"
    ):
        RowEncoder(pa.record_batch({"value": [b"v"], "headers": column}))


# Timestamps.


@pytest.mark.parametrize(
    "kind", [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
)
def test_timestamps_of_every_unit(kind: pa.DataType) -> None:
    column = pa.array([3, None, 5], pa.timestamp("s")).cast(kind)
    batch = RowEncoder(pa.record_batch({"value": [b"v"] * 3, "timestamp": column}), timestamp_ms=4_000).encode().batch
    assert [record.timestamp for record in read_records(batch)] == [3_000, 4_000, 5_000]
    assert (read_header(batch).base_timestamp, read_header(batch).max_timestamp) == (3_000, 5_000)


def test_timestamps_in_milliseconds_and_parts_of_one() -> None:
    column = pa.array([1_234_999, -1_000], pa.timestamp("us"))
    batch = RowEncoder(pa.record_batch({"value": [b"v"] * 2, "timestamp": column})).encode().batch
    assert [record.timestamp for record in read_records(batch)] == [1_234, -1]
    column = pa.array([77, -1], pa.int64())
    batch = RowEncoder(pa.record_batch({"value": [b"v"] * 2, "timestamp": column})[1:]).encode().batch
    assert [record.timestamp for record in read_records(batch)] == [-1]


def test_timestamps_that_no_record_can_have() -> None:
    table = pa.record_batch({"value": [b"v"] * 2, "timestamp": pa.array([0, -2], pa.int64())})
    with pytest.raises(ValueError, match="row 1: the timestamp is before 1970"):
        RowEncoder(table).encode()
    with pytest.raises(ValueError, match=r"overflow|out of bounds"):
        RowEncoder(pa.record_batch({"value": [b"v"], "timestamp": pa.array([2**60], pa.timestamp("s"))}))
    with pytest.raises(ValueError, match="milliseconds since the epoch"):
        RowEncoder(table, timestamp_ms=-2)
    with pytest.raises(ColumnTypeError, match="column 'timestamp' is string"):
        RowEncoder(pa.record_batch({"value": [b"v"], "timestamp": ["today"]}))


def test_no_timestamp_at_all() -> None:
    batch = RowEncoder(pa.record_batch({"value": VALUES})).encode().batch
    assert (read_header(batch).base_timestamp, read_header(batch).max_timestamp) == (-1, -1)


def test_large_rows_are_written_without_the_interpreter_lock() -> None:
    records: list[RecordFields] = [(index, b"k", b"v" * 100, []) for index in range(2_000)]
    encoded = RowEncoder(table_of(records)).encode(size_bytes_max=100_000)
    assert len(encoded.batch) > 32_768 + HEADER_SIZE
    assert [record.timestamp for record in read_records(encoded.batch)] == list(range(encoded.row_count))
