"""The contents of log files as printable entries: one for each batch, index entry, producer or line.

The name determines the kind of file. Damage becomes an entry with a problem, and reading continues after it where
that is possible.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tailrace.base.sentinel import INT64_MAX
from tailrace.records.batch import BatchHeader, Buffer, TimestampType
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, read_control_type, read_end_transaction_marker
from tailrace.records.error import RecordError
from tailrace.records.record import Record, read_records
from tailrace.storage.checkpoint import (
    CLEAN_FILE_NAME,
    META_FILE_NAME,
    PARTITION_FILE_NAME,
    CorruptCheckpoint,
    decode_lines,
)
from tailrace.storage.epoch_cache import EPOCH_FILE_NAME
from tailrace.storage.folder_check import OFFSET_FILE_NAMES
from tailrace.storage.fs import FileSystem
from tailrace.storage.index_file import IndexFile, read_offset_entries, read_time_entries, read_transaction_entries
from tailrace.storage.producer_snapshot import SNAPSHOT_SUFFIX, CorruptSnapshot, decode_snapshot
from tailrace.storage.producer_state import ProducerEntry
from tailrace.storage.salvage import Stretch, walk_stretches
from tailrace.storage.segment.file import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

# Suffixes that Kafka adds while files are deleted or replaced.
_PASSING_SUFFIXES = (".deleted", ".cleaned", ".swap", ".tmp")


class Entry(NamedTuple):
    """One entry of a file: its kind, its fields, and its problem if it has one."""

    kind: str
    fields: dict[str, Any]
    problem: str = ""
    records: tuple[dict[str, Any], ...] = ()


Reader = Callable[[FileSystem, str, int, bool], Iterator[Entry]]


def find_reader(path: str) -> tuple[Reader, int] | None:
    """Return the reader for a file name, and the offset in the name; None for an unknown name."""
    name = os.path.basename(path)
    for suffix in _PASSING_SUFFIXES:
        name = name.removesuffix(suffix)
    if name in _READERS_BY_NAME:
        return _READERS_BY_NAME[name], 0
    stem, suffix = os.path.splitext(name)
    if suffix in _READERS_BY_SUFFIX and stem.isascii() and stem.isdigit() and int(stem) <= INT64_MAX:
        return _READERS_BY_SUFFIX[suffix], int(stem)
    return None


def _read_log(fs: FileSystem, path: str, base_offset: int, with_records: bool) -> Iterator[Entry]:
    file = fs.open(path)
    for stretch in walk_stretches(file, 0, file.size_bytes(), base_offset, base_offset):
        header = stretch.header
        if header is None:
            yield _damage(stretch)
            continue
        records: tuple[dict[str, Any], ...] = ()
        problem = stretch.problem
        if with_records:
            batch = file.read_at(stretch.position, stretch.size_bytes)
            records, unreadable = _read_all(batch, header)
            problem = problem or unreadable
        yield Entry("batch", _batch_fields(stretch.position, header, is_valid=stretch.is_good), problem, records)


def _damage(stretch: Stretch) -> Entry:
    fields = {
        "position": stretch.position,
        "size_bytes": stretch.size_bytes,
        "expected_offset": stretch.expected_offset,
    }
    return Entry("damage", fields, stretch.problem)


def _batch_fields(position: int, header: BatchHeader, *, is_valid: bool) -> dict[str, Any]:
    time_name = "append_time" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "create_time"
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "position": position,
        time_name: header.max_timestamp,
        "size_bytes": header.size_bytes,
        "magic": header.magic,
        "compression": _compression_name(header),
        "crc": header.crc,
        "is_valid": is_valid,
    }


def _compression_name(header: BatchHeader) -> str:
    names = {int(codec): codec.name.lower() for codec in Compression}
    return names.get(header.compression_id, f"unknown ({header.compression_id})")


def _read_all(batch: Buffer, header: BatchHeader) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return the records of a batch up to the first unreadable one, and the reason."""
    records = []
    try:
        for record in read_records(batch):
            records.append(_record_fields(record, header))  # noqa: PERF401  those before a bad one are kept
    except RecordError as error:
        return tuple(records), str(error)
    return tuple(records), ""


def _record_fields(record: Record, header: BatchHeader) -> dict[str, Any]:
    fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if header.base_sequence >= 0:
        fields["sequence"] = header.base_sequence + record.offset - header.base_offset & 0x7FFF_FFFF
    if header.is_control:
        control_type = read_control_type(record.key)
        fields["control_type"] = control_type.name
        if control_type in (ControlType.ABORT, ControlType.COMMIT):
            fields["coordinator_epoch"] = read_end_transaction_marker(record).coordinator_epoch
            return fields
    return fields | {"key": record.key, "value": record.value, "headers": record.headers}


def _read_offset_index(fs: FileSystem, path: str, base_offset: int, _with_records: bool) -> Iterator[Entry]:
    entries, file = read_offset_entries(fs.read_file(path) or b"", base_offset)
    for entry in entries:
        yield Entry("offset_index_entry", entry._asdict())
    yield from _end_of_index(file)


def _read_time_index(fs: FileSystem, path: str, base_offset: int, _with_records: bool) -> Iterator[Entry]:
    entries, file = read_time_entries(fs.read_file(path) or b"", base_offset)
    for entry in entries:
        yield Entry("time_index_entry", entry._asdict())
    yield from _end_of_index(file)


def _read_transaction_index(fs: FileSystem, path: str, _base_offset: int, _with_records: bool) -> Iterator[Entry]:
    entries, file = read_transaction_entries(fs.read_file(path) or b"")
    for entry in entries:
        yield Entry("aborted_transaction", entry._asdict())
    yield from _end_of_index(file)


def _end_of_index(file: IndexFile) -> Iterator[Entry]:
    if file.unused_count:
        yield Entry("unused", {"count": file.unused_count})
    if file.leftover_bytes:
        yield Entry("damage", {"size_bytes": file.leftover_bytes}, "the last entry of the file is incomplete")


def _read_snapshot(fs: FileSystem, path: str, _offset: int, _with_records: bool) -> Iterator[Entry]:
    try:
        producers = decode_snapshot(fs.read_file(path) or b"")
    except CorruptSnapshot as error:
        yield Entry("damage", {}, str(error))
        return
    for producer in producers:
        yield Entry("producer", _producer_fields(producer))


def _producer_fields(producer: ProducerEntry) -> dict[str, Any]:
    last = producer.batches[-1] if producer.batches else None
    transaction = producer.current_txn_first_offset
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_first_offset": transaction if transaction >= 0 else None,
        "last_timestamp": producer.last_timestamp,
        "first_sequence": last.base_sequence if last else None,
        "last_sequence": last.last_sequence if last else None,
        "last_offset": last.last_offset if last else None,
    }


def _read_epochs(fs: FileSystem, path: str, _offset: int, _with_records: bool) -> Iterator[Entry]:
    for epoch, start_offset in _words(fs, path, 2):
        yield Entry("leader_epoch", {"epoch": int(epoch), "start_offset": int(start_offset)})


def _read_checkpoint(fs: FileSystem, path: str, _offset: int, _with_records: bool) -> Iterator[Entry]:
    for topic, partition, offset in _words(fs, path, 3):
        yield Entry("offset", {"topic": topic, "partition": int(partition), "offset": int(offset)})


def _words(fs: FileSystem, path: str, columns: int) -> Iterator[list[str]]:
    yield from decode_lines(fs.read_file(path) or b"", columns)


def _read_properties(fs: FileSystem, path: str, _offset: int, _with_records: bool) -> Iterator[Entry]:
    """Yield the lines of meta.properties and partition.metadata, each with a name and a value."""
    for line in (fs.read_file(path) or b"").decode("utf-8", "backslashreplace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition(":" if os.path.basename(path) == PARTITION_FILE_NAME else "=")
            yield Entry("property", {"name": name.strip(), "value": value.strip()})


def _read_clean_mark(fs: FileSystem, path: str, _offset: int, _with_records: bool) -> Iterator[Entry]:
    data = fs.read_file(path) or b"{}"
    try:
        found = json.loads(data)
    except ValueError:
        yield Entry("damage", {"size_bytes": len(data)}, "no JSON")
        return
    yield Entry("clean_stop", found if isinstance(found, dict) else {"value": found})


def read_entries(fs: FileSystem, path: str, reader: Reader, offset: int, with_records: bool) -> Iterator[Entry]:
    """Yield all entries of a file."""
    try:
        yield from reader(fs, path, offset, with_records)
    except (CorruptCheckpoint, ValueError) as error:
        yield Entry("damage", {}, str(error))


_READERS_BY_SUFFIX: dict[str, Reader] = {
    LOG_SUFFIX: _read_log,
    OFFSET_INDEX_SUFFIX: _read_offset_index,
    TIME_INDEX_SUFFIX: _read_time_index,
    TRANSACTION_INDEX_SUFFIX: _read_transaction_index,
    SNAPSHOT_SUFFIX: _read_snapshot,
}
_READERS_BY_NAME: dict[str, Reader] = {
    EPOCH_FILE_NAME: _read_epochs,
    **dict.fromkeys(OFFSET_FILE_NAMES, _read_checkpoint),
    PARTITION_FILE_NAME: _read_properties,
    META_FILE_NAME: _read_properties,
    CLEAN_FILE_NAME: _read_clean_mark,
}
