"""The walk over every record of a batch that checks whether the batch may be stored.

It creates no object for a record. It checks each length, count and delta, finds the largest
timestamp, and collects the first records without a key or with a timestamp out of range.

There are two versions: the Python one below, which defines the behaviour, and one in C with the same
steps in `_native.pyx`.

A length of -1 of a key, value or header value means null. Kafka reads every negative length as null;
this walk does not, because no client writes other negative lengths and not every client reads them.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tailrace.base.limits import RECORD_ERRORS_PER_BATCH_MAX
from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.records.batch import NO_TIMESTAMP, Buffer
from tailrace.records.native import find_native
from tailrace.records.varint import VarintCut, VarintTooLong, read_varint, read_varlong


class WalkError(IntEnum):
    """The reason why a record, or the end of the records, is invalid."""

    NONE = 0
    TRUNCATED = 1
    BAD_VARINT = 2
    RECORD_SIZE = 3
    RECORD_SHORT = 4
    RECORD_LONG = 5
    TIMESTAMP = 6
    OFFSET_DELTA = 7
    FIELD_SIZE = 8
    HEADER_COUNT = 9
    HEADER_KEY = 10
    LEFTOVER = 11
    OFFSET_RANGE = 12
    TIMESTAMP_RANGE = 13

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS = {
    WalkError.NONE: "nothing is wrong",
    WalkError.TRUNCATED: "the batch has fewer records than its header says",
    WalkError.BAD_VARINT: "a varint is too long",
    WalkError.RECORD_SIZE: "the record's length is negative or reaches beyond the batch",
    WalkError.RECORD_SHORT: "the record is shorter than its fields",
    WalkError.RECORD_LONG: "the record is longer than its fields",
    WalkError.TIMESTAMP: "the timestamp does not fit 64 bits",
    WalkError.OFFSET_DELTA: "the offset delta is not the index of the record",
    WalkError.FIELD_SIZE: "the length of a field is invalid",
    WalkError.HEADER_COUNT: "the number of headers is invalid",
    WalkError.HEADER_KEY: "the length of a header key is invalid",
    WalkError.LEFTOVER: "bytes follow the last record",
    WalkError.OFFSET_RANGE: "the offset is outside the batch",
    WalkError.TIMESTAMP_RANGE: "the timestamp does not fit 64 bits in microseconds",
}


class Walk(NamedTuple):
    """The result of a walk. After an error, the other fields cover only the records before it."""

    error_index: int  # of the invalid record; the record count for LEFTOVER; -1 without an error
    error: WalkError
    max_timestamp: int
    max_timestamp_index: int  # of the first record that has it
    min_timestamp: int
    null_keys: tuple[int, ...]  # indexes of records without a key, the first few
    bad_timestamps: tuple[int, ...]  # indexes of records with a timestamp out of range, the first few


WalkTuple = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...]]
WalkFunction = Callable[[Buffer, int, int, int, int, int, int], WalkTuple]


class WalkFault(Exception):
    """Stops the Python walk with an error."""

    def __init__(self, error: WalkError) -> None:
        self.error = error


def walk_records_python(
    buffer: Buffer,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
) -> WalkTuple:
    """Walk `count` records that must fill the buffer from `position` to `end`; return the fields of `Walk`."""
    if not 0 <= position <= end <= len(buffer):
        raise ValueError("the records are not within the buffer")
    data = bytes(memoryview(buffer)[position:end])
    newest = oldest = NO_TIMESTAMP
    newest_index = -1
    null_keys: list[int] = []
    bad_timestamps: list[int] = []
    error_index, error = -1, WalkError.NONE
    index = at = 0
    try:
        while index < count:
            timestamp_delta, is_null_key, at = _walk_record(data, at, index, base_timestamp)
            timestamp = base_timestamp + timestamp_delta
            if index == 0 or timestamp > newest:
                newest, newest_index = timestamp, index
            if index == 0 or timestamp < oldest:
                oldest = timestamp
            if is_null_key and len(null_keys) < RECORD_ERRORS_PER_BATCH_MAX:
                null_keys.append(index)
            if timestamp != NO_TIMESTAMP and not timestamp_min <= timestamp <= timestamp_max:
                bad_timestamps += [index] if len(bad_timestamps) < RECORD_ERRORS_PER_BATCH_MAX else []
            index += 1
        if at != len(data):
            raise WalkFault(WalkError.LEFTOVER)
    except WalkFault as fault:
        error_index, error = index, fault.error
    except VarintCut:
        error_index, error = index, WalkError.RECORD_SHORT
    except VarintTooLong:
        error_index, error = index, WalkError.BAD_VARINT
    return error_index, error, newest, newest_index, oldest, tuple(null_keys), tuple(bad_timestamps)


def _walk_record(data: bytes, at: int, index: int, base_timestamp: int) -> tuple[int, bool, int]:
    """Return the record's timestamp delta, whether its key is null, and the position of the next record."""
    if at == len(data):
        raise WalkFault(WalkError.TRUNCATED)
    size, at = read_varint(data, at, len(data))
    end = at + size
    if size < 0 or end > len(data):
        raise WalkFault(WalkError.RECORD_SIZE)
    if size == 0:
        raise WalkFault(WalkError.RECORD_SHORT)
    timestamp_delta, at = read_varlong(data, at + 1, end)
    offset_delta, at = read_varint(data, at, end)
    key_size, at = skip_field(data, at, end, -1, WalkError.FIELD_SIZE)
    _, at = skip_field(data, at, end, -1, WalkError.FIELD_SIZE)
    at = _skip_headers(data, at, end)
    if at != end:
        raise WalkFault(WalkError.RECORD_LONG)
    if not INT64_MIN <= base_timestamp + timestamp_delta <= INT64_MAX:
        raise WalkFault(WalkError.TIMESTAMP)
    if offset_delta != index:
        raise WalkFault(WalkError.OFFSET_DELTA)
    return timestamp_delta, key_size < 0, end


def _skip_headers(data: bytes, at: int, end: int) -> int:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise WalkFault(WalkError.HEADER_COUNT)
    for _ in range(count):
        _, at = skip_field(data, at, end, 0, WalkError.HEADER_KEY)
        _, at = skip_field(data, at, end, -1, WalkError.FIELD_SIZE)
    return at


def skip_field(data: bytes, at: int, end: int, size_min: int, error: WalkError) -> tuple[int, int]:
    """Return a field's length and the position after it; raise `error` for an invalid length."""
    size, at = read_varint(data, at, end)
    if not size_min <= size <= end - at:
        raise WalkFault(error)
    return size, at + size if size > 0 else at


_walk: WalkFunction = find_native("walk_records") or walk_records_python
IS_NATIVE = _walk is not walk_records_python


def walk_records(
    buffer: Buffer,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    timestamp_min: int = INT64_MIN,
    timestamp_max: int = INT64_MAX,
) -> Walk:
    """Walk `count` records that must fill the buffer from `position` to `end`.

    Timestamps outside [timestamp_min, timestamp_max] are collected, except -1, which means none.
    """
    found = _walk(buffer, position, end, count, base_timestamp, timestamp_min, timestamp_max)
    return Walk(found[0], WalkError(found[1]), *found[2:])
