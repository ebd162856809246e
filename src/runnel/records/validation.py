"""Whether a produced batch may be stored, and with which of Kafka's error codes it may not.

In two steps, because they cost differently. `check_header` looks at the header and the
checksum, microseconds that an event loop can spare. `check_records` decompresses and walks
every record; it lets other threads run while it does, so a large or compressed batch belongs
into a worker thread.

The answers are those of Kafka's broker, which accepts more than is good in places. Runnel
refuses: a batch that claims the broker's clock for its timestamps, offset deltas that are not
0, 1, 2 …, bytes after the batch, a transactional batch without a producer id, and lz4 streams
that Kafka's own consumer cannot open.
"""

from typing import NamedTuple

from runnel.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType, check_crc, read_header
from runnel.records.compression import Compression, decompress, is_readable_by_java
from runnel.records.error import CorruptBatch, DecompressionLimit, LegacyBatch, TruncatedBatch
from runnel.records.record import INT64_MAX, INT64_MIN
from runnel.records.walk import Walk, WalkError, walk_records


class RecordFault(NamedTuple):
    """One record to blame, for the record errors of a produce response."""

    record_index: int
    message: str


class InvalidRecordsError(ApiError):
    """A batch refused because of records in it, of which the first few are named."""

    def __init__(self, code: ErrorCode, message: str, faults: tuple[RecordFault, ...]) -> None:
        super().__init__(code, message)
        self.faults = faults


class ValidBatch(NamedTuple):
    """A batch that may be stored."""

    header: BatchHeader
    max_timestamp: int
    """The newest timestamp among the records."""
    max_timestamp_offset_delta: int
    """The place in the batch of the first record that has it."""
    records_size_bytes: int
    """The size of the records without compression."""

    @property
    def needs_max_timestamp(self) -> bool:
        """Whether the header states another newest timestamp; like Kafka, correct it with `set_max_timestamp`."""
        return self.header.max_timestamp != self.max_timestamp


def validate_batch(
    buffer: Buffer,
    *,
    size_bytes_max: int,
    decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    require_key: bool = False,
    allow_zstd: bool = True,
    timestamp_min: int = INT64_MIN,
    timestamp_max: int = INT64_MAX,
) -> ValidBatch:
    """Both steps at once."""
    header = check_header(buffer, size_bytes_max=size_bytes_max, allow_zstd=allow_zstd)
    return check_records(
        buffer,
        header,
        decompressed_bytes_max=decompressed_bytes_max,
        require_key=require_key,
        timestamp_min=timestamp_min,
        timestamp_max=timestamp_max,
    )


def check_header(buffer: Buffer, *, size_bytes_max: int, allow_zstd: bool = True) -> BatchHeader:
    """Check all that can be known without opening the records, which must be the whole `buffer`.

    `allow_zstd` is false for Produce before version 7, whose clients know no such codec (KIP-110).
    """
    header = _read_only_batch(buffer)
    if header.base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}, not 0")
    if header.size_bytes > size_bytes_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {header.size_bytes} bytes where {size_bytes_max} are allowed"
        )
    if not check_crc(buffer, 0, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    # What the checksum covers is only believed from here on.
    _check_claims(header)
    _check_codec(header, allow_zstd)
    return header


def _read_only_batch(buffer: Buffer) -> BatchHeader:
    """The header of the one batch that `buffer` must hold."""
    if len(buffer) == 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "there is no batch")
    try:
        header = read_header(buffer)
    except LegacyBatch as error:
        raise ApiError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error)) from None
    except (CorruptBatch, TruncatedBatch) as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if header.size_bytes > len(buffer):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch claims {header.size_bytes} bytes and has {len(buffer)}")
    if header.size_bytes < len(buffer):
        raise ApiError(ErrorCode.INVALID_RECORD, "a request holds one batch a partition, and more bytes follow it")
    return header


def _check_claims(header: BatchHeader) -> None:
    """What a client may state about the records."""
    message = None
    if header.record_count <= 0:
        message = f"the batch claims {header.record_count} records"
    elif header.last_offset_delta + 1 != header.record_count:
        message = f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}"
    elif header.is_control:
        message = "clients may not write control records"
    elif header.has_producer_id and header.base_sequence < 0:
        message = f"producer {header.producer_id} sends the sequence number {header.base_sequence}"
    elif header.is_transactional and not header.has_producer_id:
        message = "a transactional batch has no producer id"
    if message is not None:
        raise ApiError(ErrorCode.INVALID_RECORD, message)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the log append time")


def _check_codec(header: BatchHeader, allow_zstd: bool) -> None:
    try:
        codec = header.compression
    except CorruptBatch as error:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    if codec is Compression.ZSTD and not allow_zstd:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce")


def check_records(
    buffer: Buffer,
    header: BatchHeader,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    require_key: bool = False,
    timestamp_min: int = INT64_MIN,
    timestamp_max: int = INT64_MAX,
) -> ValidBatch:
    """Check every record of the batch whose header `check_header` returned.

    `require_key` is for compacted topics. Records may be as old as `timestamp_min` and as new as
    `timestamp_max`, or say with -1 that they have no timestamp; a topic that stamps records itself
    passes neither.
    """
    records: Buffer = memoryview(buffer)[HEADER_SIZE : header.size_bytes]
    if header.compression is not Compression.NONE:
        records = _open(records, header.compression, decompressed_bytes_max)
    walk = walk_records(
        records, 0, len(records), header.record_count, header.base_timestamp, timestamp_min, timestamp_max
    )
    _check_walk(walk, require_key)
    return ValidBatch(header, walk.max_timestamp, walk.max_timestamp_index, len(records))


def _open(payload: Buffer, codec: Compression, limit_bytes: int) -> Buffer:
    if not is_readable_by_java(codec, payload):
        raise ApiError(ErrorCode.INVALID_RECORD, "lz4 blocks must be independent of each other")
    try:
        return decompress(codec, payload, limit_bytes)
    except DecompressionLimit as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except CorruptBatch as error:
        # The checksum was right, so the producer made it so and would send the same again:
        # CORRUPT_MESSAGE would have it try until its time-out.
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None


def _check_walk(walk: Walk, require_key: bool) -> None:
    if walk.error is WalkError.TIMESTAMP:
        raise _refusal(ErrorCode.INVALID_TIMESTAMP, (RecordFault(walk.error_index, walk.error.text),))
    if walk.error is not WalkError.NONE:
        raise _refusal(ErrorCode.INVALID_RECORD, (RecordFault(walk.error_index, walk.error.text),))
    faults = [RecordFault(index, "the timestamp is out of the allowed range") for index in walk.bad_timestamps]
    if require_key:
        faults += [RecordFault(index, "a compacted topic takes no record without a key") for index in walk.null_keys]
    if faults:
        # As in Kafka: one bad timestamp decides the code for all.
        code = ErrorCode.INVALID_TIMESTAMP if walk.bad_timestamps else ErrorCode.INVALID_RECORD
        raise _refusal(code, tuple(sorted(faults)))


def _refusal(code: ErrorCode, faults: tuple[RecordFault, ...]) -> InvalidRecordsError:
    return InvalidRecordsError(code, f"record {faults[0].record_index}: {faults[0].message}", faults)
