"""Building batches, reading records back, and the batches of a fetch response."""

import pytest
from tests.unit.records.made_batch import make_batch

from tailrace.base.invariant import InvariantError
from tailrace.records.batch import HEADER_SIZE, assign_offsets, check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.error import CorruptBatch, TruncatedBatch
from tailrace.records.record import Record, read_batches, read_records


def test_header_of_a_built_batch(codec: Compression) -> None:
    builder = BatchBuilder(codec, producer_id=7, producer_epoch=1, base_sequence=9, is_transactional=True)
    for timestamp in (1_000, 3_000, 2_000):
        assert builder.append(timestamp, b"key", b"value")
    batch = builder.build()
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert header.compression is codec
    assert header.is_transactional
    assert not header.is_control
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 3_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)


def test_no_producer_and_no_timestamp() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, None)
    batch = builder.build()
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert list(read_records(batch)) == [Record(0, -1, None, None, ())]


def test_size_is_bounded_but_the_first_record_always_fits() -> None:
    builder = BatchBuilder(size_bytes_max=200)
    assert builder.append(0, None, b"x" * 500)
    assert not builder.append(0, None, b"x")
    assert builder.record_count == 1

    record_size = 17
    for spare in (0, 1, record_size - 1):
        builder = BatchBuilder(size_bytes_max=HEADER_SIZE + 3 * record_size + spare)
        while builder.append(0, None, b"x" * 10):
            pass
        assert builder.record_count == 3
        assert len(builder.build()) == builder.size_bytes == HEADER_SIZE + 3 * record_size


def test_a_refused_record_leaves_no_trace() -> None:
    builder = BatchBuilder(size_bytes_max=100)
    builder.append(5, None, b"x")
    before = builder.build()
    assert not builder.append(2_000, None, b"x" * 100)
    assert builder.build() == before


def test_misuse_is_a_bug() -> None:
    with pytest.raises(InvariantError):
        BatchBuilder().build()
    with pytest.raises(InvariantError):
        BatchBuilder().append(-2, None, None)


def test_offsets_follow_the_base_offset() -> None:
    builder = BatchBuilder(Compression.ZSTD)
    for value in (b"a", b"b"):
        builder.append(0, None, value)
    batch = bytearray(builder.build())
    assign_offsets(batch, 0, 1_000, 3)
    assert [(record.offset, record.value) for record in read_records(batch)] == [(1_000, b"a"), (1_001, b"b")]


def test_batches_of_a_fetch_response() -> None:
    first, second = make_batch(), make_batch(body=b"\x00")
    whole = first + second
    assert [position for position, _ in read_batches(whole)] == [0, len(first)]
    for size in range(len(whole)):
        positions = [position for position, _ in read_batches(whole[:size])]
        assert positions == ([0] if size >= len(first) else [])


def test_batches_after_which_something_else_comes() -> None:
    with pytest.raises(CorruptBatch):
        list(read_batches(make_batch() + b"\xff" * HEADER_SIZE))


def test_every_prefix_of_a_batch_is_refused(codec: Compression) -> None:
    builder = BatchBuilder(codec)
    builder.append(0, b"key", b"value" * 10, [("h", b"v")])
    batch = builder.build()
    for size in range(len(batch)):
        with pytest.raises(TruncatedBatch):
            list(read_records(batch[:size]))


# One record: length 6, attributes, timestamp delta 0, offset delta 0, no key, no value, no headers.
SMALLEST = bytes([12, 0, 0, 0, 1, 1, 0])


@pytest.mark.parametrize(
    ("body", "record_count", "message"),
    [
        pytest.param(SMALLEST[:-1], 1, "a record has 6 bytes, but only 5 are left", id="cut"),
        pytest.param(SMALLEST + b"\x00", 1, "1 bytes follow the last record", id="leftover"),
        pytest.param(SMALLEST, 2, "a varint is incomplete", id="too few"),
        pytest.param(SMALLEST, 0, "7 bytes follow the last record", id="too many"),
        pytest.param(SMALLEST, -1, "invalid record count -1", id="negative count"),
        pytest.param(bytes([1, 0, 0, 0, 1, 1, 0]), 1, "a record has -1 bytes", id="negative size"),
        pytest.param(
            bytes([12, 0, 0, 0, 1, 1, 2]), 1, "1 headers, but only 0 bytes are left", id="header beyond the end"
        ),
        pytest.param(bytes([12, 0, 0, 0, 1, 1, 1]), 1, "-1 headers", id="negative header count"),
        pytest.param(bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, "a header has no key", id="header without a key"),
        pytest.param(
            bytes([12, 0, 0, 0, 8, 1, 0]), 1, "a field has 4 bytes, but only 2 are left", id="key beyond the end"
        ),
        pytest.param(bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1, "has 7 bytes, but its fields have 6", id="record too long"),
        pytest.param(bytes([10, 0, 0, 0, 1, 1, 0]), 1, "a varint is incomplete", id="record too short"),
        pytest.param(b"\x80" * 5 + SMALLEST, 1, "a varint is too long", id="endless length"),
    ],
)
def test_records_that_are_corrupt(body: bytes, record_count: int, message: str) -> None:
    batch = make_batch(body=body, record_count=record_count)
    with pytest.raises(CorruptBatch, match=message):
        list(read_records(batch))


def test_smallest_record() -> None:
    batch = make_batch(body=SMALLEST, record_count=1)
    assert list(read_records(batch)) == [Record(0, 1_000, None, None, ())]


def test_header_key_that_is_no_text_is_replaced_as_in_java() -> None:
    body = bytes([18, 0, 0, 0, 1, 1, 2, 2, 0xFF, 1])
    (record,) = read_records(make_batch(body=body, record_count=1))
    assert record.headers == (("\ufffd", None),)


def test_timestamp_beyond_64_bits() -> None:
    body = bytes([12, 0, 2, 0, 1, 1, 0])
    with pytest.raises(CorruptBatch, match="timestamp"):
        list(read_records(make_batch(body=body, record_count=1, base_timestamp=2**63 - 1)))
