"""The search for a record by timestamp: the first at or after a timestamp, or the newest."""

from typing import NamedTuple

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader
from tailrace.records.error import RecordError
from tailrace.records.record import Record, read_records
from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.segment.segment import Segment


class TimestampOffset(NamedTuple):
    """The timestamp, offset and leader epoch of a record."""

    timestamp: int
    offset: int
    leader_epoch: int


class LookupOvertaken(Exception):
    """Segments were deleted during the search. The caller searches again."""


class TimestampLookup(NamedTuple):
    """A search by timestamp, as a value that a worker thread can run, because it may wait for the disk."""

    folder: Folder
    segments: tuple[Segment, ...]
    log_start_offset: int
    timestamp_ms: int | None

    def run(self) -> TimestampOffset | None:
        """Search, on any thread. Raise `LookupOvertaken`, `ApiError` with CORRUPT_MESSAGE, or `StorageError`."""
        self.folder.check()
        try:
            if self.timestamp_ms is None:
                return _max_timestamp_offset(self)
            return _offset_for_timestamp(self, self.timestamp_ms)
        except (StorageError, ApiError) as error:
            if any(segment.is_gone for segment in self.segments):
                raise LookupOvertaken from error
            if isinstance(error, StorageError):
                self.folder.note(error)
            raise


def _offset_for_timestamp(log: TimestampLookup, timestamp_ms: int) -> TimestampOffset | None:
    """Return the first record whose timestamp is `timestamp_ms` or later."""
    start_offset = log.log_start_offset
    for segment in log.segments:
        if segment.maximum[0] < timestamp_ms:
            continue
        # Timestamps need not rise, but all records before the offset of an index entry are at most as
        # new as the entry, so no record before it can match.
        first = max(_first_offset(segment, timestamp_ms), start_offset)
        for position, header in segment.headers_from(first):
            if header.max_timestamp >= timestamp_ms:
                for record in _records(segment, position, header):
                    if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                        return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _first_offset(segment: Segment, timestamp_ms: int) -> int:
    """Return an offset at or before the first match, from an index entry that the log confirms."""
    timestamp, offset = segment.time_index.floor(timestamp_ms)
    if timestamp >= 0:
        found = segment.find(offset)
        is_true = found is not None and found[1].base_offset <= offset and found[1].max_timestamp == timestamp
        if not is_true and segment.distrust_indexes():
            return _first_offset(segment, timestamp_ms)
    return offset


def _max_timestamp_offset(log: TimestampLookup) -> TimestampOffset | None:
    """Return the first record with the largest timestamp in the log."""
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


def _scan_for_maximum(log: TimestampLookup) -> TimestampOffset | None:
    """Scan all records for the largest timestamp, because DeleteRecords deleted the newest record."""
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
