"""The header of a record batch (magic 2), its checksum, and the fields a broker patches.

The checksum covers everything from the attributes to the end. The base offset, the length,
the partition leader epoch and the magic stand before it, so a broker gives a batch its
offset without touching the checksum.
"""

import struct
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from runnel.records.compression import Compression
from runnel.records.error import CorruptBatch, LegacyBatch, TruncatedBatch

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and length, which the length field does not count
MAGIC = 2
MAGIC_POSITION = 16
CHECKSUMMED_POSITION = 21  # the first byte that the checksum covers

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

INT32_MAX = 0x7FFF_FFFF

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
    """Whose clock a batch's timestamps come from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as they stand on the wire."""

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
        """The whole batch, header and all."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression_id(self) -> int:
        """The codec bits, which may name a codec that does not exist."""
        return self.attributes & COMPRESSION_MASK

    @property
    def compression(self) -> Compression:
        """The codec; raises `CorruptBatch` for an id that names none."""
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
        """Whether the base timestamp is the time from which compaction may drop tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2^31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` records later; after 2^31 - 1 comes 0."""
    return (sequence + increment) & INT32_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`.

    Raises `TruncatedBatch` when fewer than 61 bytes are left, `LegacyBatch` for the message
    formats 0 and 1, and `CorruptBatch` for a magic or a length that no batch can have. It does
    not look whether the rest of the batch is there: compare `size_bytes` with what is left.
    """
    try:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    except struct.error:
        _explain_short_header(buffer, position)
        raise
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic)
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= INT32_MAX - LOG_OVERHEAD:
        raise CorruptBatch(f"impossible batch length {header.batch_length}")
    return header


def _explain_short_header(buffer: Buffer, position: int) -> None:
    """Tell what is known to be wrong from a cut header, because a legacy message may be shorter than one."""
    left = len(buffer) - position
    if left > MAGIC_POSITION:
        length, _, magic = _LENGTH_EPOCH_MAGIC.unpack_from(buffer, position + _LENGTH_POSITION)
        if magic != MAGIC:
            raise _wrong_magic(magic) from None
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"impossible batch length {length}") from None
    if left < HEADER_SIZE:
        raise TruncatedBatch(f"{left} bytes are too few for a batch header") from None


def _wrong_magic(magic: int) -> CorruptBatch:
    if magic in (0, 1):
        return LegacyBatch(f"message format {magic} is not supported")
    return CorruptBatch(f"impossible magic {magic}")


def whole_batch_bytes(buffer: Buffer) -> int:
    """How many bytes at the start are whole batches, by nothing but their lengths."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        size_bytes = _LENGTH.unpack_from(buffer, position + _LENGTH_POSITION)[0] + LOG_OVERHEAD
        if not HEADER_SIZE <= size_bytes <= end - position:
            break
        position += size_bytes
    return position


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """The CRC-32C of the batch of `size_bytes` at `position`.

    The native library reads the memoryview in place and lets other threads run from 32 KiB on.
    """
    return crc32c(memoryview(buffer)[position + CHECKSUMMED_POSITION : position + size_bytes])


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole and its checksum right."""
    if len(buffer) - position < header.size_bytes:
        return False
    return compute_crc(buffer, position, header.size_bytes) == header.crc


def assign_offsets(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its place in the log. The checksum covers neither field."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Make the batch at `position` say that all its records were written at `timestamp_ms`."""
    set_max_timestamp(buffer, position, TimestampType.LOG_APPEND_TIME, timestamp_ms)


def set_max_timestamp(buffer: WritableBuffer, position: int, timestamp_type: TimestampType, timestamp_ms: int) -> None:
    """Set the timestamp type and the newest timestamp of the batch at `position`, and its checksum anew."""
    header = read_header(buffer, position)
    if len(buffer) - position < header.size_bytes:
        raise TruncatedBatch(f"{len(buffer) - position} bytes of a batch of {header.size_bytes}")
    attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    write_crc(buffer, position, header.size_bytes)


def set_producer(
    buffer: WritableBuffer, position: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Say who wrote the batch at `position`, as an idempotent producer does when it sends; sets the checksum anew."""
    _PRODUCER.pack_into(buffer, position + _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    write_crc(buffer, position, read_header(buffer, position).size_bytes)


def write_crc(buffer: WritableBuffer, position: int, size_bytes: int) -> None:
    """Put the checksum of the batch of `size_bytes` at `position` into its header."""
    _CRC.pack_into(buffer, position + _CRC_POSITION, compute_crc(buffer, position, size_bytes))
