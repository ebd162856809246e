"""Records by time: the first at or after a timestamp, and the newest."""

from typing import NamedTuple, Protocol

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import BatchHeader
from runnel.records.error import RecordError
from runnel.records.record import Record, read_records
from runnel.storage.segment import Segment


class TimestampOffset(NamedTuple):
    """A record by its time and place."""

    timestamp: int
    offset: int
    leader_epoch: int


class SearchedLog(Protocol):
    """What a search needs of a log."""

    @property
    def segments(self) -> list[Segment]: ...

    @property
    def log_start_offset(self) -> int: ...


def offset_for_timestamp(log: SearchedLog, timestamp_ms: int) -> TimestampOffset | None:
    """The first record whose timestamp is `timestamp_ms` or later."""
    start_offset = log.log_start_offset
    for segment in log.segments:
        if segment.maximum[0] < timestamp_ms:
            continue
        # Timestamps need not rise: a record before the one that the index knows of cannot be
        # newer than it, so nothing older than the found place can match.
        first = max(segment.time_index.offset(timestamp_ms), start_offset)
        for position, header in segment.headers_from(first):
            if header.max_timestamp >= timestamp_ms:
                for record in _records(segment, position, header):
                    if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                        return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def max_timestamp_offset(log: SearchedLog) -> TimestampOffset | None:
    """The first record with the largest timestamp in the log."""
    newest = max(log.segments, key=lambda segment: segment.maximum[0], default=None)
    if newest is None or newest.maximum[0] < 0:
        return None
    timestamp, last_offset = newest.maximum
    if last_offset < log.log_start_offset:
        return _scan_for_maximum(log)
    for position, header in newest.headers_from(last_offset):
        if header.max_timestamp == timestamp:
            for record in _records(newest, position, header):
                if record.timestamp == timestamp and record.offset >= log.log_start_offset:
                    return TimestampOffset(timestamp, record.offset, header.partition_leader_epoch)
    return _scan_for_maximum(log)


def _scan_for_maximum(log: SearchedLog) -> TimestampOffset | None:
    """Look at every record's time, because the newest of all was deleted by DeleteRecords."""
    best: TimestampOffset | None = None
    for segment in log.segments:
        for position, header in segment.headers_from(log.log_start_offset):
            if header.max_timestamp > (best.timestamp if best else -1):
                for record in _records(segment, position, header):
                    if record.offset >= log.log_start_offset and record.timestamp > (best.timestamp if best else -1):
                        best = TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return best


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return list(read_records(segment.file.read_at(position, header.size_bytes)))
    except RecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset}: {error}") from error
