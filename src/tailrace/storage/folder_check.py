"""A read-only check of a log folder, or of one of its partitions.

The check may run next to a live broker. Data that a live broker has not written yet is not an error:
the index files of the active segment are checked only after a clean stop, and files that vanish
during the check were deleted. Each problem is checked a second time, because a file may have been
half written the first time.
"""

import errno
import os
from collections.abc import Callable, Iterator

from tailrace.base.sentinel import INT64_MAX
from tailrace.storage.checkpoint import (
    CLEAN_FILE_NAME,
    LOG_START_FILE_NAME,
    META_FILE_NAME,
    PARTITION_FILE_NAME,
    RECOVERY_POINT_FILE_NAME,
    CorruptCheckpoint,
    decode_lines,
    read_offsets,
    read_topic_id,
)
from tailrace.storage.epoch_cache import EPOCH_FILE_NAME
from tailrace.storage.error import StorageError
from tailrace.storage.finding import Finding
from tailrace.storage.fs import FileSystem
from tailrace.storage.log_dir import TopicPartition, parse_partition_name
from tailrace.storage.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshot,
    decode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.segment.check import LogTrail, Place, SegmentCheck, Tell
from tailrace.storage.segment.file import INDEX_SUFFIXES, LOG_SUFFIX

_NAME_SIZE = 20
# The last two are Kafka's checkpoints of high watermarks and of compaction.
OFFSET_FILE_NAMES = (
    RECOVERY_POINT_FILE_NAME,
    LOG_START_FILE_NAME,
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
FOLDER_FILE_NAMES = (META_FILE_NAME, *OFFSET_FILE_NAMES)


def find_partitions(fs: FileSystem, path: str) -> list[str]:
    """Return the partition folders in a log folder, or the folder itself if it is one."""
    entries = fs.list_directory(path)
    if any(entry.name.endswith(LOG_SUFFIX) and not entry.is_directory for entry in entries):
        return [path]
    names = sorted(entry.name for entry in entries if entry.is_directory and parse_partition_name(entry.name))
    folders = [os.path.join(path, name) for name in names]
    is_log_folder = any(entry.name in FOLDER_FILE_NAMES for entry in entries)
    return folders if is_log_folder else [folder for folder in folders if _has_segment(fs, folder)]


def _has_segment(fs: FileSystem, directory: str) -> bool:
    """Return whether a folder with a partition's name is a partition; names like `python3-11` occur elsewhere."""
    try:
        return any(entry.name.endswith(LOG_SUFFIX) for entry in fs.list_directory(directory))
    except StorageError:
        return False


def total_bytes(fs: FileSystem, directory: str) -> int:
    """Return the number of bytes to check in a partition."""
    try:
        return sum(entry.size_bytes for entry in fs.list_directory(directory) if entry.name.endswith(LOG_SUFFIX))
    except StorageError:
        return 0


def check_folder_files(fs: FileSystem, path: str) -> Iterator[Finding]:
    """Check the files of a log folder that all its partitions share."""
    for name in OFFSET_FILE_NAMES:
        file = os.path.join(path, name)
        try:
            for topic, partition, offset in decode_lines(fs.read_file(file) or b"", columns=3):
                if int(offset) < 0 or int(partition) < 0:
                    yield Finding(file, f"invalid offset {offset} for {topic}-{partition}")
        except (CorruptCheckpoint, ValueError) as error:
            yield Finding(file, f"not a valid checkpoint: {error}")
    meta = os.path.join(path, META_FILE_NAME)
    data = fs.read_file(meta)
    if data is not None and b"version=" not in data:
        yield Finding(meta, "has no version")


def check_partition(fs: FileSystem, directory: str, settle: Callable[[], None], tell: Tell) -> list[Finding]:
    """Check the folder of one partition; `settle` waits a moment, so that a live broker can finish a write."""
    findings = list(_find_problems(fs, directory, settle, tell))
    is_clean = fs.exists(os.path.join(os.path.dirname(os.path.abspath(directory)), CLEAN_FILE_NAME))
    if not findings or is_clean:
        return findings
    settle()
    again = set(_find_problems(fs, directory, settle, _ignore_progress))
    return [finding for finding in findings if finding in again]


def _ignore_progress(_size_bytes: int, _record_count: int) -> None:
    pass


def _find_problems(fs: FileSystem, directory: str, settle: Callable[[], None], tell: Tell) -> Iterator[Finding]:
    folder = os.path.dirname(os.path.abspath(directory))
    key = parse_partition_name(os.path.basename(os.path.abspath(directory)))
    # Read these before the log, because a live broker advances them.
    is_clean = fs.exists(os.path.join(folder, CLEAN_FILE_NAME))
    points = {name: read_offsets(fs, os.path.join(folder, name)) for name in OFFSET_FILE_NAMES[:3]}
    try:
        names = sorted(entry.name for entry in fs.list_directory(directory) if not entry.is_directory)
    except StorageError as error:
        if error.cause.errno == errno.ENOENT:
            return
        raise
    yield from _check_names(directory, names)
    bases = [int(name[:_NAME_SIZE]) for name in names if _is_segment(name)]
    yield from _check_small_files(fs, directory, bases[0] if bases else -1)
    if not bases:
        return
    trail = LogTrail(fs, directory, _producers_at(fs, directory, bases[0]), bases[0])
    clean_end = points[RECOVERY_POINT_FILE_NAME].get(key) if key is not None and is_clean else None
    for base_offset, end_offset in zip(bases, [*bases[1:], clean_end], strict=True):
        is_last = base_offset == bases[-1]
        place = Place(base_offset, end_offset, is_last, is_indexed=is_clean or not is_last)
        try:
            yield from SegmentCheck(trail, place, settle, tell).run()
        except StorageError as error:
            if error.cause.errno != errno.ENOENT:
                yield Finding(error.path, str(error.cause.strerror or error.cause))
    epochs = os.path.join(directory, EPOCH_FILE_NAME)
    if trail.has_epochs and not fs.exists(epochs):
        yield Finding(epochs, "missing")
    if key is not None:
        yield from _check_points(folder, key, points, bases[0], trail.next_offset, is_clean)


def _is_segment(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix == LOG_SUFFIX and len(stem) == _NAME_SIZE and stem.isdigit() and int(stem) <= INT64_MAX


def _check_names(directory: str, names: list[str]) -> Iterator[Finding]:
    for name in names:
        stem, suffix = os.path.splitext(name)
        path = os.path.join(directory, name)
        if suffix == LOG_SUFFIX and not _is_segment(name):
            yield Finding(path, "the name is not that of a segment, which is an offset of 20 digits")
        elif suffix in INDEX_SUFFIXES and stem + LOG_SUFFIX not in names:
            yield Finding(path, "the log file of this index is missing")


def _check_small_files(fs: FileSystem, directory: str, start_offset: int) -> Iterator[Finding]:
    for offset in snapshot_offsets(fs, directory):
        if offset <= start_offset:
            continue  # recovery does not read it, and does not repair it after a power loss
        path = snapshot_path(directory, offset)
        data = fs.read_file(path)
        try:
            if data is not None:
                decode_snapshot(data)
        except CorruptSnapshot as error:
            yield Finding(path, f"not a valid producer {SNAPSHOT_SUFFIX[1:]}: {error}")
    yield from _check_epochs(fs, os.path.join(directory, EPOCH_FILE_NAME))
    path = os.path.join(directory, PARTITION_FILE_NAME)
    if fs.exists(path) and read_topic_id(fs, directory) is None:
        yield Finding(path, "has no topic id")


def _check_epochs(fs: FileSystem, path: str) -> Iterator[Finding]:
    previous = (-1, -1)
    try:
        for words in decode_lines(fs.read_file(path) or b"", columns=2):
            epoch, start_offset = int(words[0]), int(words[1])
            if epoch <= previous[0] or start_offset <= previous[1]:
                yield Finding(path, f"epoch {epoch} at {start_offset} follows epoch {previous[0]} at {previous[1]}")
            previous = epoch, start_offset
    except (CorruptCheckpoint, ValueError) as error:
        yield Finding(path, f"not a valid checkpoint: {error}")


def _producers_at(fs: FileSystem, directory: str, offset: int) -> ProducerState:
    """Return the producer state at the start of the log."""
    producers = ProducerState(expiration_ms=2**63)
    try:
        producers.restore(decode_snapshot(fs.read_file(snapshot_path(directory, offset)) or b""))
    except CorruptSnapshot:
        producers.restore(())
    return producers


def _check_points(
    folder: str,
    key: TopicPartition,
    points: dict[str, dict[TopicPartition, int]],
    start_offset: int,
    end_offset: int,
    is_clean: bool,
) -> Iterator[Finding]:
    for name, offsets in points.items():
        offset = offsets.get(key)
        path = os.path.join(folder, name)
        if offset is None:
            continue
        if offset > end_offset:
            yield Finding(path, f"{key[0]}-{key[1]}: offset {offset} is after the end of the log at {end_offset}")
        elif is_clean and name == RECOVERY_POINT_FILE_NAME and offset != max(end_offset, start_offset):
            text = f"{key[0]}-{key[1]}: the clean stop was at offset {offset}, but the log ends at {end_offset}"
            yield Finding(path, text)
