"""Which produced batches are refused, and with which of Kafka's codes."""

from typing import Any

import lz4.frame
import pytest
from tests.unit.records.made_batch import make_batch

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import (
    HEADER_SIZE,
    TimestampType,
    check_crc,
    read_header,
    set_log_append_time,
    set_max_timestamp,
)
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression, compress
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.validation import InvalidRecordsError, RecordFault, check_header, check_records, validate_batch
from tailrace.records.varint import write_varint

SIZE_MAX = 1_048_588


def build(codec: Compression = Compression.NONE, values: tuple[bytes | None, ...] = (b"a", b"b", b"c")) -> bytes:
    builder = BatchBuilder(codec)
    for index, value in enumerate(values):
        builder.append(1_000 + index, b"key", value)
    return builder.build()


def body_of(*records: tuple[int, int, bytes | None]) -> bytes:
    """Records of (timestamp delta, offset delta, key), without value and headers."""
    output = bytearray()
    for timestamp_delta, offset_delta, key in records:
        body = bytearray(1)
        write_varint(body, timestamp_delta)
        write_varint(body, offset_delta)
        write_varint(body, -1 if key is None else len(key))
        body += key or b""
        body += b"\x01\x00"
        write_varint(output, len(body))
        output += body
    return bytes(output)


def refusal(batch: bytes | bytearray, *, size_bytes_max: int = SIZE_MAX, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as raised:
        validate_batch(memoryview(batch), size_bytes_max=size_bytes_max, **options)
    assert raised.value.message, "every refusal says why"
    return raised.value


def test_good_batch(codec: Compression) -> None:
    batch = build(codec)
    valid = validate_batch(memoryview(batch), size_bytes_max=SIZE_MAX)
    assert valid.header == read_header(batch)
    assert (valid.max_timestamp, valid.max_timestamp_offset_delta) == (1_002, 2)
    assert valid.records_size_bytes == len(build()) - HEADER_SIZE
    assert not valid.needs_max_timestamp


def test_batches_of_other_libraries(codec: Compression) -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    for index in range(50):
        builder.append(index, 1_000 - index, b"key", b"value" * 100, [("h", None)])
    valid = validate_batch(bytes(builder.build()), size_bytes_max=SIZE_MAX, require_key=True)
    assert (valid.max_timestamp, valid.max_timestamp_offset_delta) == (1_000, 0)


def test_the_two_steps(codec: Compression) -> None:
    batch = build(codec)
    header = check_header(batch, size_bytes_max=SIZE_MAX)
    assert check_records(batch, header) == validate_batch(batch, size_bytes_max=SIZE_MAX)


# The whole of the records field: rows 24 and 25 of the table of hostile input.


def test_no_batch() -> None:
    assert refusal(b"").code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("after", [build(), b"x", build()[:-1]], ids=["a batch", "a byte", "a cut batch"])
def test_more_than_one_batch(codec: Compression, after: bytes) -> None:
    """gzip and lz4 themselves would ignore what follows."""
    error = refusal(build(codec) + after)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "one batch" in str(error)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_message_format(magic: int) -> None:
    assert refusal(make_batch(magic=magic)).code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert refusal(make_batch(magic=magic)[:30]).code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
def test_impossible_magic(magic: int) -> None:
    assert refusal(make_batch(magic=magic)).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 10_000, 2**31 - 1])
def test_length_that_lies(length: int) -> None:
    assert refusal(make_batch(batch_length=length)).code is ErrorCode.CORRUPT_MESSAGE


def test_every_prefix(codec: Compression) -> None:
    batch = build(codec)
    for size in range(1, len(batch)):
        assert refusal(batch[:size]).code is ErrorCode.CORRUPT_MESSAGE


# Checksum and size: rows 26 and 27.


def test_checksum() -> None:
    assert refusal(make_batch(crc=12345)).code is ErrorCode.CORRUPT_MESSAGE


def test_every_bit_that_the_checksum_covers(codec: Compression) -> None:
    batch = build(codec)
    for bit in range(17 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        assert refusal(flipped).code is ErrorCode.CORRUPT_MESSAGE, bit


def test_too_large() -> None:
    batch = build()
    assert validate_batch(batch, size_bytes_max=len(batch))
    assert refusal(batch, size_bytes_max=len(batch) - 1).code is ErrorCode.MESSAGE_TOO_LARGE


# What the header claims: row 28.


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 1},
        {"base_offset": -1},
        {"last_offset_delta": 1},
        {"last_offset_delta": 3},
        {"last_offset_delta": -1},
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 2},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"attributes": 0x20},
        {"attributes": 0x10},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 0, "producer_epoch": 0, "base_sequence": -2},
    ],
    ids=str,
)
def test_claims(fields: dict[str, int]) -> None:
    assert refusal(make_batch(body=None, **fields)).code is ErrorCode.INVALID_RECORD


def test_control_batch_of_a_client() -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    batch = build_end_transaction_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=0)
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


def test_unused_attribute_bits_are_left_alone() -> None:
    assert validate_batch(make_batch(attributes=0x7F80), size_bytes_max=SIZE_MAX)


# The records: rows 29 and 30.

GOOD = (0, 0, b"k")


@pytest.mark.parametrize(
    ("body", "record_index"),
    [
        pytest.param(body_of(GOOD)[:-1], 0, id="shorter than it says"),
        pytest.param(body_of(GOOD) + b"\x00", 1, id="leftover"),
        pytest.param(b"\x0c" + body_of(GOOD)[1:], 0, id="shorter than its fields"),
        pytest.param(b"\x10" + body_of(GOOD)[1:] + b"\x00", 0, id="longer than its fields"),
        pytest.param(body_of(GOOD)[:-1] + b"\x01", 0, id="negative header count"),
        pytest.param(body_of(GOOD)[:-1] + b"\x02", 0, id="header count beyond the end"),
        pytest.param(b"\x12" + body_of(GOOD)[1:-1] + b"\x02\x01\x01", 0, id="negative header key"),
        pytest.param(body_of((0, 1, b"k")), 0, id="first delta not 0"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_records_that_are_not_what_they_say(body: bytes, record_index: int, packed: bool) -> None:
    payload = compress(Compression.GZIP, body) if packed else body
    batch = make_batch(body=payload, record_count=1, last_offset_delta=0, attributes=int(packed))
    error = refusal(batch)
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecordsError)
    assert [fault.record_index for fault in error.faults] == [record_index]


@pytest.mark.parametrize("deltas", [(0, 2, 3), (0, 0, 1), (1, 2, 3), (0, 2, 1), (-1, 0, 1)], ids=str)
def test_offset_deltas_with_gaps(codec: Compression, deltas: tuple[int, ...]) -> None:
    body = body_of(*((0, delta, b"k") for delta in deltas))
    batch = make_batch(body=compress(codec, body), attributes=int(codec))
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


def test_deltas_without_gaps(codec: Compression) -> None:
    body = body_of(*((0, delta, b"k") for delta in range(3)))
    assert validate_batch(make_batch(body=compress(codec, body), attributes=int(codec)), size_bytes_max=SIZE_MAX)


# Compression: rows 31 and 32.


def test_bomb(packing_codec: Compression) -> None:
    batch = build(packing_codec, (bytes(1 << 20),))
    assert len(batch) < 100_000
    assert refusal(batch, decompressed_bytes_max=1 << 20).code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate_batch(batch, size_bytes_max=SIZE_MAX, decompressed_bytes_max=(1 << 20) + 100)


def test_the_bound_of_opened_records_is_not_for_plain_ones() -> None:
    assert validate_batch(build(values=(bytes(1_000),)), size_bytes_max=SIZE_MAX, decompressed_bytes_max=10)


def test_huge_claim_of_snappy() -> None:
    batch = make_batch(body=b"\xff\xff\xff\xff\x0f\x00abc", attributes=2)
    assert refusal(batch).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("payload", [b"", b"garbage that is no stream", build(Compression.ZSTD)[HEADER_SIZE:-1]])
def test_stream_that_is_corrupt(packing_codec: Compression, payload: bytes) -> None:
    batch = make_batch(body=payload, attributes=int(packing_codec))
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_codec_that_does_not_exist(codec_id: int) -> None:
    assert refusal(make_batch(attributes=codec_id)).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_zstd_before_produce_7(packing_codec: Compression) -> None:
    batch = build(packing_codec)
    if packing_codec is Compression.ZSTD:
        assert refusal(batch, allow_zstd=False).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    else:
        assert validate_batch(batch, size_bytes_max=SIZE_MAX, allow_zstd=False)


def test_lz4_that_java_consumers_cannot_open() -> None:
    """Kafka's consumer throws on linked blocks, so such a batch would block its partition for it."""
    body = body_of(*((0, delta, bytes(40_000)) for delta in range(3)))
    linked = lz4.frame.compress(body, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
    assert refusal(make_batch(body=linked, attributes=3)).code is ErrorCode.INVALID_RECORD


# Keys and timestamps: row 33.


def test_records_without_a_key(codec: Compression) -> None:
    body = body_of((0, 0, b"k"), (0, 1, None), (0, 2, b""))
    batch = make_batch(body=compress(codec, body), attributes=int(codec))
    assert validate_batch(batch, size_bytes_max=SIZE_MAX)
    error = refusal(batch, require_key=True)
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecordsError)
    assert error.faults == (RecordFault(1, "the record has no key, which a compacted topic requires"),)


@pytest.mark.parametrize(
    ("low", "high", "bad"), [(1_000, 1_002, []), (1_001, 5_000, [0]), (0, 1_000, [1, 2]), (0, 999, [0, 1, 2])]
)
def test_timestamps_out_of_range(low: int, high: int, bad: list[int]) -> None:
    if not bad:
        assert validate_batch(build(), size_bytes_max=SIZE_MAX, timestamp_min=low, timestamp_max=high)
        return
    error = refusal(build(), timestamp_min=low, timestamp_max=high)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecordsError)
    assert [fault.record_index for fault in error.faults] == bad


def test_a_bad_timestamp_decides_the_code() -> None:
    body = body_of((0, 0, None), (9_000, 1, b"k"), (9_000, 2, None))
    error = refusal(make_batch(body=body), require_key=True, timestamp_max=2_000)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecordsError)
    assert [fault.record_index for fault in error.faults] == [0, 1, 2, 2]


def test_timestamp_beyond_64_bits() -> None:
    body = body_of((1, 0, b"k"))
    batch = make_batch(body=body, record_count=1, last_offset_delta=0, base_timestamp=2**63 - 1)
    assert refusal(batch).code is ErrorCode.INVALID_TIMESTAMP


def test_records_without_a_timestamp_are_never_out_of_range() -> None:
    batch = make_batch(body=body_of((0, 0, b"k"), (0, 1, b"k"), (0, 2, b"k")), base_timestamp=-1, max_timestamp=-1)
    assert validate_batch(batch, size_bytes_max=SIZE_MAX, timestamp_min=5_000).max_timestamp == -1


def test_log_append_time_of_a_client() -> None:
    batch = bytearray(build())
    set_log_append_time(batch, 0, 1_002)
    assert refusal(batch).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("claimed", [-1, 0, 1_001, 2**62])
def test_newest_timestamp_is_found_and_corrected_as_in_kafka(claimed: int) -> None:
    """Kafka does not believe the header's newest timestamp: it looks, writes what it found, and the checksum anew."""
    batch = make_batch(max_timestamp=claimed)
    valid = validate_batch(batch, size_bytes_max=SIZE_MAX)
    assert valid.max_timestamp == 1_002
    assert valid.needs_max_timestamp
    set_max_timestamp(batch, 0, TimestampType.CREATE_TIME, valid.max_timestamp)
    assert check_crc(batch, 0, read_header(batch))
    assert batch == make_batch()
    assert not validate_batch(batch, size_bytes_max=SIZE_MAX).needs_max_timestamp
