"""The crash-safe replacement of segments by compacted ones.

Theory of operation, which is Kafka's. The new segments are written and synced with the suffix
`.cleaned`. Then they are renamed to the suffix `.swap`, the segment with the lowest offset last and
its log after its other files: when no `.cleaned` file is left, the new segments are valid. Then the
old files are renamed to `.deleted`, and the new ones get their final names, with a sync of the folder
after each step. A start that finds a `.cleaned` file keeps the old segments and removes the new
ones; a start that finds only `.swap` files completes the swap.

In memory the new segments replace the old ones before their files are renamed, because the files
are open and their names do not matter.
"""

import logging
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock

from tailrace.base.limits import SCAN_CHUNK_BYTES
from tailrace.records.error import RecordError
from tailrace.storage.batch_walk import walk_headers
from tailrace.storage.cleaned_segment import CLEANED_SUFFIX
from tailrace.storage.folder import Folder
from tailrace.storage.fs import FileSystem
from tailrace.storage.producer_snapshot import snapshot_path
from tailrace.storage.segment.file import INDEX_SUFFIXES, LOG_SUFFIX, segment_path
from tailrace.storage.segment.segment import Segment

logger = logging.getLogger(__name__)

SWAP_SUFFIX = ".swap"
_FILE_SUFFIXES = (*INDEX_SUFFIXES, LOG_SUFFIX)


class SegmentSwap:
    """The renaming of files for new segments that replaced others in memory. It may run on any thread."""

    def __init__(
        self, folder: Folder, directory: str, old: Sequence[Segment], new: Sequence[Segment], delay_ms: int
    ) -> None:
        self.new = tuple(new)
        self._delay_ms = delay_ms
        self._old = tuple(old)
        self._folder = folder
        self._directory = directory
        self._is_over = False
        self._lock = Lock()

    def run(self) -> None:
        """Rename the files, once. It must not stop half way, so a failure takes the folder offline."""
        with self._lock:
            if not self._is_over:
                with self._folder.judging(is_fatal=True):
                    self._run()
                self._is_over = True

    def cancel(self) -> None:
        """Leave the files as they are."""
        with self._lock:
            self._is_over = True

    def _run(self) -> None:
        fs, directory = self._folder.fs, self._directory
        # Deleted segments go first: a crash must not bring back records whose tombstones are compacted away here.
        self._folder.deletions.move(directory)
        self._remove_strays()
        for segment in reversed(self.new):
            _rename(fs, directory, segment.base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        fs.sync_directory(directory)
        kept = {segment.base_offset for segment in self.new}
        for segment in self._old:
            if segment.move_away():
                self._folder.deletions.add(directory, segment.deleted_paths(), self._delay_ms)
            if segment.base_offset not in kept:
                fs.remove(snapshot_path(directory, segment.base_offset))
        fs.sync_directory(directory)
        for segment in self.new:
            _rename(fs, directory, segment.base_offset, SWAP_SUFFIX, "")
        fs.sync_directory(directory)
        # Closing the last descriptor of a large file takes long, so do it on this thread.
        self._old = ()

    def _remove_strays(self) -> None:
        """Remove the files of a failed attempt, which a start would take for an incomplete swap."""
        fs, directory = self._folder.fs, self._directory
        own = {segment_path("", segment.base_offset, "") for segment in self.new}
        names = [entry.name for entry in fs.list_directory(directory)]
        strays = [name for name in names if name.endswith(CLEANED_SUFFIX) and name[:20] not in own]
        if strays:
            _remove(fs, directory, strays)


class SegmentSwaps:
    """The swaps of one log, one at a time. Everything but a swap's `run` belongs to the log's thread."""

    def __init__(self, folder: Folder, directory: str) -> None:
        self._folder = folder
        self._directory = directory
        self._current: SegmentSwap | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        return self._current is not None

    def begin(
        self, segments: list[Segment], old: Sequence[int], new: Sequence[Segment], delay_ms: int = 0
    ) -> SegmentSwap | None:
        """Replace the segments with the base offsets `old` in `segments` by new ones.

        The caller runs the returned swap and passes it to `end`. Return None if retention has deleted the old
        segments. The old files are removed after `delay_ms`.
        """
        base_offsets = [segment.base_offset for segment in segments]
        first = bisect_left(base_offsets, old[0])
        last = first + len(old)
        if self._is_closed or self.is_busy or base_offsets[first:last] != list(old):
            return None
        # A reader of an old segment must not open the new file under the same name.
        for segment in segments[first:last]:
            segment.keep()
        self._current = SegmentSwap(self._folder, self._directory, segments[first:last], new, delay_ms)
        segments[first:last] = new
        return self._current

    def end(self, swap: SegmentSwap) -> None:
        """Finish a swap that has run: the new segments have their final names."""
        if self._current is swap:
            self._current = None
            for segment in swap.new:
                segment.seal()
                segment.forget()

    def finish(self) -> None:
        """Run the current swap, if any, before other file operations."""
        if self._current is not None:
            self._current.run()
            self.end(self._current)

    def close(self) -> None:
        """Leave all files as they are, because the log is being closed."""
        self._is_closed = True
        if self._current is not None:
            self._current.cancel()


def finish_swap(fs: FileSystem, directory: str, names: Iterable[str]) -> bool:
    """Finish or undo a swap that a crash interrupted, given the names in a folder. Return whether there was one."""
    names = set(names)
    cleaned = sorted(name for name in names if name.endswith(CLEANED_SUFFIX))
    swapped = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
    if not cleaned and not swapped:
        return False
    first_cleaned = cleaned[0] if cleaned else None
    # If the log has its final name already, only index files are left, and they can be rebuilt.
    valid = [
        name
        for name in swapped
        if (first_cleaned is None or name[:20] < first_cleaned[:20])
        and f"{name[:20]}{LOG_SUFFIX}{SWAP_SUFFIX}" in names
    ]
    # Remove undone files before the `.cleaned` files that mark them as undone.
    _remove(fs, directory, set(swapped).difference(valid))
    _remove(fs, directory, cleaned)
    if valid:
        _complete(fs, directory, sorted({int(name[:20]) for name in valid}), names)
    return True


def _complete(fs: FileSystem, directory: str, base_offsets: Sequence[int], names: Iterable[str]) -> None:
    start_offset = base_offsets[0]
    end_offset = max(_end_offset(fs, directory, base_offset) for base_offset in base_offsets)
    logger.info("%s: completing a compaction of the offsets %d to %d", directory, start_offset, end_offset)
    files = [name for name in names if name[:20].isdigit() and name[20:] in _FILE_SUFFIXES]
    _remove(fs, directory, [name for name in files if start_offset <= int(name[:20]) < end_offset])
    for base_offset in base_offsets:
        _rename(fs, directory, base_offset, SWAP_SUFFIX, "")
    fs.sync_directory(directory)


def _remove(fs: FileSystem, directory: str, names: Iterable[str]) -> None:
    for name in names:
        fs.remove(os.path.join(directory, name))
    fs.sync_directory(directory)


def _end_offset(fs: FileSystem, directory: str, base_offset: int) -> int:
    """Return the end offset of the segments that a swapped segment replaces, from its last batch."""
    end_offset = base_offset + 1
    file = fs.open(segment_path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX))
    with suppress(RecordError):
        for _, header in walk_headers(file, 0, file.size_bytes(), SCAN_CHUNK_BYTES):
            end_offset = header.next_offset
    return end_offset


def _rename(fs: FileSystem, directory: str, base_offset: int, suffix: str, new_suffix: str) -> None:
    for file_suffix in _FILE_SUFFIXES:
        path = segment_path(directory, base_offset, file_suffix)
        if fs.exists(path + suffix):
            fs.rename(path + suffix, path + new_suffix)
