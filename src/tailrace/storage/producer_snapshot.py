"""Snapshots of producer state: Kafka's `.snapshot` files, named after the offset that they cover.

The file holds a version (1), a CRC-32C of the bytes after it, a count, and for each producer only
its last batch. So after a restart one batch of each producer is known instead of five.

A producer expires by the time in the snapshot. In Kafka's snapshots that is the timestamp of the last batch. If the
log got that batch much later, the snapshot has the time when it did.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

from crc32c import crc32c

from tailrace.base.sentinel import INT32_MAX
from tailrace.storage.fs import FileSystem, write_atomically
from tailrace.storage.producer_state import ProducerBatch, ProducerEntry, ProducerState
from tailrace.storage.segment.file import segment_path

SNAPSHOT_SUFFIX = ".snapshot"
_VERSION = 1
_HEADER = Struct(">hIi")
_CHECKSUMMED_POSITION = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, txn first offset
_ENTRY = Struct(">qhiqiqiq")
_LATENESS_PART = 100  # a batch is late if it came after more than this part of the time in which its producer expires


class CorruptSnapshot(Exception):
    """A snapshot file is invalid. An older snapshot and the log give the same state."""


def encode_snapshot(state: ProducerState) -> bytes:
    data = bytearray(_HEADER.size)
    for entry in state.entries.values():
        last = entry.batches[-1] if entry.batches else ProducerBatch(-1, -1, -1, -1, -1)
        data += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.base_offset,
            _time(entry, state.expiration_ms),
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    _HEADER.pack_into(data, 0, _VERSION, 0, len(state.entries))
    _HEADER.pack_into(data, 0, _VERSION, crc32c(memoryview(data)[_CHECKSUMMED_POSITION:]), len(state.entries))
    return bytes(data)


def _time(entry: ProducerEntry, expiration_ms: int) -> int:
    is_late = entry.active_ms - entry.last_timestamp > expiration_ms // _LATENESS_PART
    return entry.active_ms if is_late else entry.last_timestamp


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read the entries; raise `CorruptSnapshot` if the file is invalid."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a header")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"version {version} with {count} entries in {len(data)} bytes")
    if crc32c(memoryview(data)[_CHECKSUMMED_POSITION:]) != crc:
        raise CorruptSnapshot("wrong checksum")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, producer_epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn = fields
    entry = ProducerEntry(producer_id)
    entry.producer_epoch = producer_epoch
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = entry.active_ms = timestamp
    entry.current_txn_first_offset = max(txn, -1)
    if last_offset >= 0:
        # A negative last sequence means that the batch has no sequence numbers.
        base_sequence = last_sequence if last_sequence < 0 else (last_sequence - delta) & INT32_MAX
        entry.batches.append(ProducerBatch(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
        entry.is_partial = True
    return entry


def snapshot_offsets(fs: FileSystem, directory: str) -> list[int]:
    """Return the offsets of the snapshots in a partition's folder, in order."""
    return snapshot_offsets_of(entry.name for entry in fs.list_directory(directory))


def snapshot_offsets_of(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the names in a partition's folder, in order."""
    stems = [name[: -len(SNAPSHOT_SUFFIX)] for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdigit())


def snapshot_path(directory: str, offset: int) -> str:
    return segment_path(directory, offset, SNAPSHOT_SUFFIX)


def write_snapshot(fs: FileSystem, directory: str, offset: int, state: ProducerState) -> None:
    """Write the state after all batches below `offset`.

    A new file is not synced, because its checksum exposes a torn one, and older snapshots and the log give the same
    state. An existing one is replaced atomically: at the start of a log nothing else has the producers in it.
    """
    path, data = snapshot_path(directory, offset), encode_snapshot(state)
    known = fs.read_file(path)
    if known is None:
        fs.write_file(path, data)
    elif known != data:
        write_atomically(fs, path, data)


def remove_snapshots(fs: FileSystem, directory: str, *, below: int = 0, above: int | None = None) -> None:
    """Remove the snapshots below one offset and above another."""
    for offset in snapshot_offsets(fs, directory):
        if offset < below or (above is not None and offset > above):
            fs.remove(snapshot_path(directory, offset))


def load_newest_snapshot(
    fs: FileSystem,
    directory: str,
    state: ProducerState,
    *,
    first: int,
    last: int,
    now_ms: int,
    offsets: Sequence[int] | None = None,
) -> int:
    """Fill `state` from the newest valid snapshot in [first, last]. Return its offset, or `first`.

    The snapshot at the start of a log has the producers whose batches are all deleted; Kafka removes it.

    `offsets` are the offsets of the snapshots, if the caller has listed them already.
    """
    for offset in reversed(snapshot_offsets(fs, directory) if offsets is None else offsets):
        if not first <= offset <= last:
            continue
        try:
            entries = decode_snapshot(fs.read_file(snapshot_path(directory, offset)) or b"")
        except CorruptSnapshot:
            fs.remove(snapshot_path(directory, offset))
            continue
        state.restore(entry for entry in entries if not state.is_expired(entry, now_ms))
        return offset
    return first
