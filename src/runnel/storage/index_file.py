"""Index files as they stand, entry by entry, for those who want to see what is wrong with one.

Kafka makes the index files of the segment in use as large as they may become and cuts them
when it rolls, so zeros at the end are room for entries and none themselves.
"""

from struct import Struct
from typing import NamedTuple

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_TRANSACTION_ENTRY = Struct(">hqqqq")


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and where the batch begins."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to an offset."""

    timestamp: int
    offset: int


class TransactionEntry(NamedTuple):
    """An aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class IndexFile(NamedTuple):
    """The entries of a file, the room behind them, and the bytes at the end that are no whole entry."""

    entries: list[tuple[int, ...]]
    unused_count: int
    leftover_bytes: int


def _read(data: bytes, entry: Struct) -> IndexFile:
    leftover_bytes = len(data) % entry.size
    whole = memoryview(data)[: len(data) - leftover_bytes]
    used = len(whole) // entry.size
    nothing = bytes(entry.size)
    while used and whole[(used - 1) * entry.size : used * entry.size] == nothing:
        used -= 1
    entries = list(entry.iter_unpack(whole[: used * entry.size]))
    return IndexFile(entries, len(whole) // entry.size - used, leftover_bytes)


def read_offset_entries(data: bytes, base_offset: int) -> tuple[list[OffsetEntry], IndexFile]:
    """The entries of an `.index` file."""
    file = _read(data, _OFFSET_ENTRY)
    return [OffsetEntry(base_offset + relative, position) for relative, position in file.entries], file


def read_time_entries(data: bytes, base_offset: int) -> tuple[list[TimeEntry], IndexFile]:
    """The entries of a `.timeindex` file."""
    file = _read(data, _TIME_ENTRY)
    if not file.entries and file.unused_count == 1:
        # The first offset with timestamp 0 is all zeros, too. Room is left for many entries, so this is one.
        file = IndexFile([(0, 0)], 0, file.leftover_bytes)
    return [TimeEntry(timestamp, base_offset + relative) for timestamp, relative in file.entries], file


def read_transaction_entries(data: bytes) -> tuple[list[TransactionEntry], IndexFile]:
    """The entries of a `.txnindex` file."""
    file = _read(data, _TRANSACTION_ENTRY)
    return [TransactionEntry._make(fields) for fields in file.entries], file
