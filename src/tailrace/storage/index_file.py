"""The raw entries of index files, for checks and dumps.

Kafka allocates the index files of the active segment at their maximum size and truncates them
when it rolls, so zeros at the end are free space and not entries.
"""

from struct import Struct
from typing import NamedTuple

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_TRANSACTION_ENTRY = Struct(">hqqqq")


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and the batch's position."""

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
    """The entries of a file, the free space after them, and the bytes at the end that are not a whole entry."""

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
    """Return the entries of an `.index` file."""
    file = _read(data, _OFFSET_ENTRY)
    return [OffsetEntry(base_offset + relative, position) for relative, position in file.entries], file


def read_time_entries(data: bytes, base_offset: int) -> tuple[list[TimeEntry], IndexFile]:
    """Return the entries of a `.timeindex` file."""
    file = _read(data, _TIME_ENTRY)
    if not file.entries and file.unused_count == 1:
        # An entry for the first offset with timestamp 0 is all zeros. Free space is larger, so this is an entry.
        file = IndexFile([(0, 0)], 0, file.leftover_bytes)
    return [TimeEntry(timestamp, base_offset + relative) for timestamp, relative in file.entries], file


def read_transaction_entries(data: bytes) -> tuple[list[TransactionEntry], IndexFile]:
    """Return the entries of a `.txnindex` file."""
    file = _read(data, _TRANSACTION_ENTRY)
    return [TransactionEntry._make(fields) for fields in file.entries], file
