"""Segments put in the place of others so that a crash leaves either the old or the new ones.

Theory of operation, which is Kafka's. The new segments are written and synced under the suffix
`.cleaned`. Then they get the suffix `.swap`, the one with the lowest offset last and its log
last of its files: when no `.cleaned` is left, the new ones count. Then the old files go, as `.deleted`,
and then the new ones get their names, with a sync of the folder after each step. A start that finds
`.cleaned` takes the old segments and drops it, with what was already renamed; one that finds
only `.swap` goes on where the crash was.

In memory the new segments take over before their files are renamed, because they are open and
an open file does not care for its name.
"""

import logging
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock

from runnel.base.limits import SCAN_CHUNK_BYTES
from runnel.records.error import RecordError
from runnel.storage.batch_walk import walk_headers
from runnel.storage.cleaned_segment import CLEANED_SUFFIX
from runnel.storage.folder import Folder
from runnel.storage.fs import FileSystem
from runnel.storage.producer_snapshot import snapshot_path
from runnel.storage.segment import Segment
from runnel.storage.segment_file import INDEX_SUFFIXES, LOG_SUFFIX, segment_path

logger = logging.getLogger(__name__)

SWAP_SUFFIX = ".swap"
_FILE_SUFFIXES = (*INDEX_SUFFIXES, LOG_SUFFIX)


class SegmentSwap:
    """The change of files for new segments that have taken over in memory, to be run on any thread."""

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
        """Do it unless it was done. It cannot be left half way, so a failure takes the folder offline."""
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
        # A crash must not bring back older records than those whose deletion of a key is compacted away here.
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
        # To close the last descriptor of a large file takes long, which is better done here than by whoever comes last.
        self._old = ()

    def _remove_strays(self) -> None:
        """Remove what a failed attempt may have left: a start would take it for a sign that this swap is undone."""
        fs, directory = self._folder.fs, self._directory
        own = {segment_path("", segment.base_offset, "") for segment in self.new}
        names = [entry.name for entry in fs.list_directory(directory)]
        strays = [name for name in names if name.endswith(CLEANED_SUFFIX) and name[:20] not in own]
        if strays:
            _remove(fs, directory, strays)


class SwapDesk:
    """The swaps of one log, one after the other. Everything but a swap's `run` belongs to the log's thread."""

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
        """Put new segments among `segments` in the place of the old ones of these base offsets.

        Run what is returned, then `end` it. None if retention has taken the old ones away. The old
        files are removed after `delay_ms`.
        """
        base_offsets = [segment.base_offset for segment in segments]
        first = bisect_left(base_offsets, old[0])
        last = first + len(old)
        if self._is_closed or self.is_busy or base_offsets[first:last] != list(old):
            return None
        # Whoever is about to read from an old one must not find the new file under its name.
        for segment in segments[first:last]:
            segment.keep()
        self._current = SegmentSwap(self._folder, self._directory, segments[first:last], new, delay_ms)
        segments[first:last] = new
        return self._current

    def end(self, swap: SegmentSwap) -> None:
        """Take note that a swap has run: the new segments have their names."""
        if self._current is swap:
            self._current = None
            for segment in swap.new:
                segment.seal()
                segment.forget()

    def finish(self) -> None:
        """Run the swap that is under way, if it was not run yet, because something else is to be done with files."""
        if self._current is not None:
            self._current.run()
            self.end(self._current)

    def close(self) -> None:
        """Leave all files where they are, because the log is."""
        self._is_closed = True
        if self._current is not None:
            self._current.cancel()


def finish_swap(fs: FileSystem, directory: str, names: Iterable[str]) -> bool:
    """Finish or undo what a crash left of a swap, given the names in a folder. Returns whether there was something."""
    names = set(names)
    cleaned = sorted(name for name in names if name.endswith(CLEANED_SUFFIX))
    swapped = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
    if not cleaned and not swapped:
        return False
    first_cleaned = cleaned[0] if cleaned else None
    # Of a segment whose log has its name already, only index files are left, and they can be made anew.
    valid = [
        name
        for name in swapped
        if (first_cleaned is None or name[:20] < first_cleaned[:20])
        and f"{name[:20]}{LOG_SUFFIX}{SWAP_SUFFIX}" in names
    ]
    # What is undone goes before the files that say that it is.
    _remove(fs, directory, set(swapped).difference(valid))
    _remove(fs, directory, cleaned)
    if valid:
        _complete(fs, directory, sorted({int(name[:20]) for name in valid}), names)
    return True


def _complete(fs: FileSystem, directory: str, base_offsets: Sequence[int], names: Iterable[str]) -> None:
    start_offset = base_offsets[0]
    end_offset = max(_end_offset(fs, directory, base_offset) for base_offset in base_offsets)
    logger.info("%s: compacted segments take the place of those from %d to %d", directory, start_offset, end_offset)
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
    """Where the segments end that a swapped one replaces, which its last batch tells."""
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
