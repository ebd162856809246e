"""The 61 bytes, their checksum, and what a broker writes into them."""

from collections.abc import Callable

import pytest
from tests.least_peak import least_peak
from tests.unit.records.made_batch import make_batch

from tailrace.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    TimestampType,
    assign_offsets,
    check_crc,
    compute_crc,
    increment_sequence,
    read_header,
    set_log_append_time,
    set_max_timestamp,
    whole_batch_bytes,
)
from tailrace.records.compression import Compression
from tailrace.records.error import CorruptBatch, LegacyBatch, TruncatedBatch
from tailrace.records.record import read_records

# Three records as aiokafka writes them: producer 5, epoch 3, sequences from 7, transactional.
GOLDEN = bytes.fromhex(
    "000000000000000000000061ffffffff02f1b60b3b00100000000200000000000003e800000000000003ea"
    "0000000000000005000300000007000000031c000000026b000402680278026e011e000202026b02760402"
    "680278026e0120000404026b0476760402680278026e01"
)


def header_with(**fields: int) -> BatchHeader:
    return read_header(GOLDEN)._replace(**fields)


def test_header_of_an_independent_encoder() -> None:
    assert read_header(GOLDEN) == BatchHeader(
        base_offset=0,
        batch_length=97,
        partition_leader_epoch=-1,
        magic=2,
        crc=0xF1B60B3B,
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp=1000,
        max_timestamp=1002,
        producer_id=5,
        producer_epoch=3,
        base_sequence=7,
        record_count=3,
    )


def test_properties_of_the_header() -> None:
    header = read_header(b"before" + GOLDEN, 6)
    assert header.size_bytes == len(GOLDEN) == 97 + LOG_OVERHEAD
    assert (header.last_offset, header.next_offset, header.last_sequence) == (2, 3, 9)
    assert header.compression is Compression.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize(
    ("attributes", "name", "value"),
    [
        (0x01, "compression", Compression.GZIP),
        (0x02, "compression", Compression.SNAPPY),
        (0x03, "compression", Compression.LZ4),
        (0x04, "compression", Compression.ZSTD),
        (0x08, "timestamp_type", TimestampType.LOG_APPEND_TIME),
        (0x10, "is_transactional", True),
        (0x20, "is_control", True),
        (0x40, "has_delete_horizon", True),
        (0x40, "delete_horizon_ms", 1000),
        (-1, "is_control", True),
    ],
)
def test_attributes(attributes: int, name: str, value: object) -> None:
    assert getattr(header_with(attributes=attributes), name) == value


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_codec_that_does_not_exist(codec_id: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec_id}"):
        _ = header_with(attributes=codec_id).compression


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(-1, 2, -1), (0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_last_sequence_wraps(base_sequence: int, last_offset_delta: int, last_sequence: int) -> None:
    header = header_with(base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert header.last_sequence == last_sequence


def test_next_sequence_after_the_largest() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0


def test_every_prefix_of_a_header_is_truncated() -> None:
    for size in range(HEADER_SIZE):
        with pytest.raises(TruncatedBatch):
            read_header(GOLDEN[:size])


@pytest.mark.parametrize("length", [-1, 0, 13, 48, 2**31 - 12, 2**31 - 1, -(2**31)])
def test_impossible_length(length: int) -> None:
    with pytest.raises(CorruptBatch, match="length"):
        read_header(make_batch(batch_length=length))


@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
def test_impossible_magic(magic: int) -> None:
    with pytest.raises(CorruptBatch, match="magic") as raised:
        read_header(make_batch(magic=magic))
    assert not isinstance(raised.value, LegacyBatch)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_message_even_when_shorter_than_a_header(magic: int) -> None:
    batch = make_batch(magic=magic)
    for size in (17, 34, HEADER_SIZE, len(batch)):
        with pytest.raises(LegacyBatch):
            read_header(batch[:size])


def test_crc_is_right_and_notices_every_bit_it_covers() -> None:
    header = read_header(GOLDEN)
    assert check_crc(GOLDEN, 0, header)
    for bit in range(21 * 8, len(GOLDEN) * 8):
        flipped = bytearray(GOLDEN)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not check_crc(flipped, 0, header), bit


def test_crc_of_a_batch_that_is_not_all_there_is_wrong() -> None:
    assert not check_crc(GOLDEN[:-1], 0, read_header(GOLDEN))


def test_crc_ends_with_the_batch() -> None:
    assert check_crc(b"before" + GOLDEN + b"after", 6, read_header(GOLDEN))


def test_crc_reads_a_memoryview_in_place() -> None:
    big = memoryview(bytearray(4 << 20))
    assert least_peak(lambda: compute_crc(big, 0, len(big)), 100_000) < 100_000


@pytest.mark.parametrize("view", [bytearray, lambda data: memoryview(bytearray(data))], ids=["bytearray", "memoryview"])
def test_assigning_offsets_leaves_the_checksum_right(view: Callable[[bytes], bytearray | memoryview]) -> None:
    buffer = view(b"before" + GOLDEN)
    assign_offsets(buffer, 6, 2**40, 9)
    header = read_header(buffer, 6)
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (2**40, 9, 2**40 + 2)
    assert check_crc(buffer, 6, header)
    assert bytes(buffer[:6]) == b"before"
    assert bytes(buffer[6 + 16 :]) == GOLDEN[16:]


def test_log_append_time_reaches_every_record() -> None:
    buffer = bytearray(b"before" + GOLDEN + b"after")
    set_log_append_time(buffer, 6, 5_000)
    header = read_header(buffer, 6)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.max_timestamp, header.base_timestamp) == (5_000, 1_000)
    assert header.is_transactional
    assert check_crc(buffer, 6, header)
    assert [record.timestamp for record in read_records(buffer, 6)] == [5_000] * 3
    assert buffer.endswith(b"after")


def test_max_timestamp_of_the_producers_clock() -> None:
    buffer = bytearray(GOLDEN)
    set_log_append_time(buffer, 0, 5_000)
    set_max_timestamp(buffer, 0, TimestampType.CREATE_TIME, 1_002)
    assert bytes(buffer) == GOLDEN


def test_log_append_time_of_a_cut_batch_is_refused() -> None:
    with pytest.raises(TruncatedBatch):
        set_log_append_time(bytearray(GOLDEN[:-1]), 0, 5_000)


@pytest.mark.parametrize("rest_bytes", [0, 1, 11, HEADER_SIZE - 1, HEADER_SIZE, len(GOLDEN) - 1])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_whole_batches_end_where_the_first_begins_that_is_not_whole(count: int, rest_bytes: int) -> None:
    assert whole_batch_bytes(GOLDEN * count + GOLDEN[:rest_bytes]) == len(GOLDEN) * count


@pytest.mark.parametrize("length", [-(2**31), -13, 0, HEADER_SIZE - LOG_OVERHEAD - 1, 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_whole_batches(length: int) -> None:
    broken = bytearray(GOLDEN)
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    assert whole_batch_bytes(GOLDEN + broken + GOLDEN) == len(GOLDEN)
