"""The snapshot at the start of a log that begins again: the producers of the deleted records before it.

It is written before the log is truncated, so a full disk leaves the log as it is. It gets its name before the log has a
segment again. So no crash leaves a log that begins there without the producers.
"""

from collections.abc import Sequence

from tailrace.storage.folder import Folder
from tailrace.storage.fs import FileSystem
from tailrace.storage.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    remove_snapshots,
    snapshot_path,
)
from tailrace.storage.producer_state import ProducerEntry, ProducerState


def prepare_snapshot(
    folder: Folder, directory: str, offset: int, producers: Sequence[ProducerEntry], expiration_ms: int
) -> None:
    """Write and sync a snapshot of the producers, if there are any, under a name that recovery removes."""
    if not producers:
        return
    state = ProducerState(expiration_ms)
    state.restore(producers)
    path = _temporary_path(directory, offset)
    with folder.judging():
        folder.fs.write_file(path, encode_snapshot(state))
        folder.fs.sync_file(path)


def install_snapshot(fs: FileSystem, directory: str, offset: int, producers: Sequence[ProducerEntry]) -> None:
    """Put the snapshot that was prepared, if there is one, in the place of all others, without a sync of the folder.

    The rename replaces an older snapshot at `offset`. If that was removed first, a power loss could keep the removal
    alone, and the segment that was deleted.
    """
    if not producers:
        remove_snapshots(fs, directory, above=-1)
        return
    remove_snapshots(fs, directory, below=offset, above=offset)
    fs.rename(_temporary_path(directory, offset), snapshot_path(directory, offset))


def load_snapshot_at(folder: Folder, directory: str, offset: int) -> list[ProducerEntry]:
    """Return the producers in the snapshot at `offset`; none if there is no valid one."""
    with folder.judging():
        try:
            return decode_snapshot(folder.fs.read_file(snapshot_path(directory, offset)) or b"")
        except CorruptSnapshot:
            return []


def _temporary_path(directory: str, offset: int) -> str:
    return f"{snapshot_path(directory, offset)}.tmp"
