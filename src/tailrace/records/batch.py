"""The header of a record batch (magic 2), its checksum, and the fields that a broker sets.

The checksum covers everything from the attributes to the end. The base offset, the length, the
partition leader epoch and the magic come before it, so a broker can assign offsets to a batch
without changing the checksum.
"""

import struct
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.compression import Compression
from tailrace.records.error import CorruptBatch, LegacyBatch, TruncatedBatch

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and length, which the length field leaves out
MAGIC = 2
MAGIC_POSITION = 16
CHECKSUMMED_POSITION = 21  # the first byte that the checksum covers

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1


COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
_BASE_OFFSET = Struct(">q")
_LENGTH = Struct(">i")
_LENGTH_EPOCH_MAGIC = Struct(">iib")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")

_LENGTH_POSITION = 8
_LEADER_EPOCH_POSITION = 12
_CRC_POSITION = 17
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER_POSITION = 43

_COMPRESSION_BY_ID = {int(codec): codec for codec in Compression}


class TimestampType(IntEnum):
    """The clock that a batch's timestamps come from: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including the header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression_id(self) -> int:
        """The codec bits, which may be unknown."""
        return self.attributes & COMPRESSION_MASK

    @property
    def compression(self) -> Compression:
        """The codec. Raises `CorruptBatch` if the codec bits are unknown."""
        codec = _COMPRESSION_BY_ID.get(self.attributes & COMPRESSION_MASK)
        if codec is None:
            raise CorruptBatch(f"unknown compression codec {self.compression_id}")
        return codec

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time from which compaction may remove tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; 2^31 - 1 is followed by 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` records later; 2^31 - 1 is followed by 0."""
    return (sequence + increment) & INT32_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`.

    Raise `TruncatedBatch` if fewer than 61 bytes are left, `LegacyBatch` for the message formats 0 and
    1, and `CorruptBatch` for an invalid magic or length. The rest of the batch may be missing: the
    caller compares `size_bytes` with the bytes left.
    """
    try:
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    except struct.error:
        _explain_short_header(buffer, position)
        raise
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic)
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= INT32_MAX - LOG_OVERHEAD:
        raise CorruptBatch(f"invalid batch length {header.batch_length}")
    return header


def says_transactional(buffer: Buffer) -> bool:
    """Whether the bytes say that they are a transactional batch; nothing else about them is checked."""
    if len(buffer) < HEADER_SIZE or buffer[MAGIC_POSITION] != MAGIC:
        return False
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, _ATTRIBUTES_POSITION)
    return bool(attributes & TRANSACTIONAL_FLAG)


def _explain_short_header(buffer: Buffer, position: int) -> None:
    """Raise the error of a partial header. A legacy message may be shorter than a header, so check the magic first."""
    left = len(buffer) - position
    if left > MAGIC_POSITION:
        length, _, magic = _LENGTH_EPOCH_MAGIC.unpack_from(buffer, position + _LENGTH_POSITION)
        if magic != MAGIC:
            raise _wrong_magic(magic) from None
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"invalid batch length {length}") from None
    if left < HEADER_SIZE:
        raise TruncatedBatch(f"{left} bytes are too few for a batch header") from None


def _wrong_magic(magic: int) -> CorruptBatch:
    if magic in (0, 1):
        return LegacyBatch(f"message format {magic} is not supported")
    return CorruptBatch(f"invalid magic {magic}")


def whole_batch_bytes(buffer: Buffer) -> int:
    """Return the number of bytes at the start that are whole batches, judging only by their lengths."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        size_bytes = _LENGTH.unpack_from(buffer, position + _LENGTH_POSITION)[0] + LOG_OVERHEAD
        if not HEADER_SIZE <= size_bytes <= end - position:
            break
        position += size_bytes
    return position


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """Return the CRC-32C of the batch of `size_bytes` at `position`.

    The native library reads the memoryview in place, and releases the GIL from 32 KiB on.
    """
    return crc32c(memoryview(buffer)[position + CHECKSUMMED_POSITION : position + size_bytes])


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the batch at `position` is whole and its checksum is right."""
    if len(buffer) - position < header.size_bytes:
        return False
    return compute_crc(buffer, position, header.size_bytes) == header.crc


def assign_offsets(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set the base offset and leader epoch of the batch at `position`. The checksum covers neither field."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Set the timestamp of all records of the batch at `position` to the log append time `timestamp_ms`."""
    set_max_timestamp(buffer, position, TimestampType.LOG_APPEND_TIME, timestamp_ms)


def set_max_timestamp(buffer: WritableBuffer, position: int, timestamp_type: TimestampType, timestamp_ms: int) -> None:
    """Set the timestamp type and the largest timestamp of the batch at `position`, and update its checksum."""
    header = read_header(buffer, position)
    if len(buffer) - position < header.size_bytes:
        raise TruncatedBatch(f"the buffer holds {len(buffer) - position} of the {header.size_bytes} bytes of a batch")
    attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    write_crc(buffer, position, header.size_bytes)


def set_producer(
    buffer: WritableBuffer, position: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Set the producer of the batch at `position`, as an idempotent producer does on sending, and its checksum."""
    _PRODUCER.pack_into(buffer, position + _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    write_crc(buffer, position, read_header(buffer, position).size_bytes)


def write_crc(buffer: WritableBuffer, position: int, size_bytes: int) -> None:
    """Compute the checksum of the batch of `size_bytes` at `position` and write it into the header."""
    _CRC.pack_into(buffer, position + _CRC_POSITION, compute_crc(buffer, position, size_bytes))
