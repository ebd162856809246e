"""The validation of produced batches, with Kafka's error codes.

It has two steps with different costs. `check_header` checks the header and the checksum, which takes
microseconds and can run on the event loop. `check_records` decompresses and walks every record; it
releases the GIL meanwhile, so a large or compressed batch belongs in a worker thread.

The error codes are those of Kafka's broker, which accepts more in places. Tailrace rejects: a batch
that claims log append time, offset deltas that are not 0, 1, 2 …, bytes after the batch, a
transactional batch without a producer id, and lz4 streams that Kafka's own consumer cannot read.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tailrace.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.base.record_part import RecordPart
from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType, check_crc, read_header
from tailrace.records.compression import Compression, decompress, is_readable_by_java
from tailrace.records.error import CorruptBatch, DecompressionLimit, LegacyBatch, TruncatedBatch
from tailrace.records.schema_id import SchemaIds, collect_schema_ids
from tailrace.records.walk import Walk, WalkError, walk_records


class RecordFault(NamedTuple):
    """An invalid record, for the record errors of a produce response."""

    record_index: int
    message: str


class InvalidRecordsError(ApiError):
    """A batch is rejected because of its records. The first few are named."""

    def __init__(self, code: ErrorCode, faults: tuple[RecordFault, ...]) -> None:
        super().__init__(code, f"record {faults[0].record_index}: {faults[0].message}")
        self.faults = faults


class ValidBatch(NamedTuple):
    """A batch that passed validation."""

    header: BatchHeader
    max_timestamp: int
    """The largest timestamp of the records."""
    max_timestamp_offset_delta: int
    """The offset delta of the first record with that timestamp."""
    records_size_bytes: int
    """The size of the records before compression."""
    schema_ids: tuple[tuple[RecordPart, Sequence[int]], ...] = ()
    """The different schema ids of the `schema_parts` that `check_records` was called with.

    `find_schema_ids` tells which records have them: the indexes can take a hundred times the memory of the batch.
    """

    @property
    def needs_max_timestamp(self) -> bool:
        """Whether the header has a wrong largest timestamp. Like Kafka, correct it with `set_max_timestamp`."""
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
    schema_parts: Sequence[RecordPart] = (),
) -> ValidBatch:
    """Check the header and the records."""
    header = check_header(buffer, size_bytes_max=size_bytes_max, allow_zstd=allow_zstd)
    return check_records(
        buffer,
        header,
        decompressed_bytes_max=decompressed_bytes_max,
        require_key=require_key,
        timestamp_min=timestamp_min,
        timestamp_max=timestamp_max,
        schema_parts=schema_parts,
    )


def check_header(
    buffer: Buffer,
    *,
    size_bytes_max: int,
    allow_zstd: bool = True,
    is_known: Callable[[BatchHeader], bool] = lambda _: False,
) -> BatchHeader:
    """Check everything except the records. The batch must fill the whole `buffer`.

    `allow_zstd` is false for Produce before version 7, whose clients do not know the codec (KIP-110). `is_known` is
    called for a batch that is too large, before its checksum is checked: one that the log has already may be larger,
    because the limit was lowered.
    """
    header = _read_only_batch(buffer)
    if header.base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the base offset of the batch is {header.base_offset}, not 0")
    if header.size_bytes > size_bytes_max and not is_known(header):
        message = f"the batch has {header.size_bytes} bytes, but at most {size_bytes_max} are allowed"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, message)
    if not check_crc(buffer, 0, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    # Fields that the checksum covers can be trusted from here on.
    _check_claims(header)
    _check_codec(header, allow_zstd)
    return header


def _read_only_batch(buffer: Buffer) -> BatchHeader:
    """Return the header of the one batch that `buffer` must hold."""
    if len(buffer) == 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "the request has no batch for the partition")
    try:
        header = read_header(buffer)
    except LegacyBatch as error:
        raise ApiError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error)) from None
    except (CorruptBatch, TruncatedBatch) as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if header.size_bytes > len(buffer):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch claims {header.size_bytes} bytes but has {len(buffer)}")
    if header.size_bytes < len(buffer):
        message = "bytes follow the batch; a request may hold one batch for each partition"
        raise ApiError(ErrorCode.INVALID_RECORD, message)
    return header


def _check_claims(header: BatchHeader) -> None:
    """Check the header fields that a client may set."""
    message = None
    if header.record_count <= 0:
        message = f"the batch claims {header.record_count} records"
    elif header.last_offset_delta + 1 != header.record_count:
        message = f"the batch has {header.record_count} records but the last offset delta {header.last_offset_delta}"
    elif header.is_control:
        message = "clients may not write control records"
    elif header.has_producer_id and header.base_sequence < 0:
        message = f"producer {header.producer_id} sent the invalid sequence number {header.base_sequence}"
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
    schema_parts: Sequence[RecordPart] = (),
) -> ValidBatch:
    """Check every record of the batch whose header `check_header` returned.

    `require_key` is for compacted topics. Timestamps must be in [timestamp_min, timestamp_max] or -1 for
    none; a topic with log append time passes neither bound. The schema ids of `schema_parts` are collected;
    whether they are known is for the caller to find out.
    """
    records = _records(buffer, header, decompressed_bytes_max)
    walk = walk_records(
        records, 0, len(records), header.record_count, header.base_timestamp, timestamp_min, timestamp_max
    )
    _check_walk(walk, require_key)
    if not schema_parts:
        return ValidBatch(header, walk.max_timestamp, walk.max_timestamp_index, len(records))
    found = _collect(records, header, schema_parts)
    distinct = tuple([(part, array("q", ids)) for part, ids in found.items()])
    return ValidBatch(header, walk.max_timestamp, walk.max_timestamp_index, len(records), distinct)


def find_schema_ids(
    buffer: Buffer, header: BatchHeader, schema_parts: Sequence[RecordPart], *, decompressed_bytes_max: int
) -> dict[RecordPart, SchemaIds]:
    """Return the schema ids of a batch that `check_records` has accepted, with the indexes of their records."""
    return _collect(_records(buffer, header, decompressed_bytes_max), header, schema_parts)


def _collect(records: Buffer, header: BatchHeader, parts: Sequence[RecordPart]) -> dict[RecordPart, SchemaIds]:
    return {part: collect_schema_ids(records, header.record_count, part) for part in parts}


def _records(buffer: Buffer, header: BatchHeader, decompressed_bytes_max: int) -> Buffer:
    records = memoryview(buffer)[HEADER_SIZE : header.size_bytes]
    if header.compression is Compression.NONE:
        return records
    return _open(records, header.compression, decompressed_bytes_max)


def _open(payload: Buffer, codec: Compression, limit_bytes: int) -> Buffer:
    if not is_readable_by_java(codec, payload):
        raise ApiError(ErrorCode.INVALID_RECORD, "lz4 blocks must be independent of each other")
    try:
        return decompress(codec, payload, limit_bytes)
    except DecompressionLimit as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except CorruptBatch as error:
        # The checksum was right, so the producer built the batch like this and would send it again:
        # CORRUPT_MESSAGE would make it retry until its timeout.
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None


def _check_walk(walk: Walk, require_key: bool) -> None:
    if walk.error is WalkError.TIMESTAMP:
        raise InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, (RecordFault(walk.error_index, walk.error.text),))
    if walk.error is not WalkError.NONE:
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, (RecordFault(walk.error_index, walk.error.text),))
    faults = [RecordFault(index, "the timestamp is outside the allowed range") for index in walk.bad_timestamps]
    if require_key:
        message = "the record has no key, which a compacted topic requires"
        faults += [RecordFault(index, message) for index in walk.null_keys]
    if faults:
        # As in Kafka, one bad timestamp decides the code for all records.
        code = ErrorCode.INVALID_TIMESTAMP if walk.bad_timestamps else ErrorCode.INVALID_RECORD
        raise InvalidRecordsError(code, tuple(sorted(faults)))
