"""The deletion of segment files.

Theory of operation, which is Kafka's. A segment is removed from its log in memory, on the log's
thread. Its files are renamed with the suffix `.deleted` soon after, and are removed after
`file.delete.delay.ms`. Both happen on the thread that changes folders, because both wait for the
disk. A starting broker removes all files with that suffix.

If a crash comes before a segment is renamed, the log begins with that segment again. Therefore
segments are renamed in offset order, and each rename is synced before the next; otherwise a
power loss could leave a gap, and recovery would take everything after it for a lost tail. A flush
includes segments that are not renamed yet, because the recovery point covers every file that
recovery may find below it.
"""

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from tailrace.storage.fs import FileSystem

if TYPE_CHECKING:  # avoids an import cycle: segment, folder, deletion
    from tailrace.storage.segment.segment import Segment


class _Moved:
    """Renamed files. The first call of `remove_due` sets the time at which they are removed."""

    __slots__ = ("delay_ms", "directory", "due_ms", "paths", "segment")

    def __init__(self, directory: str, paths: Sequence[str], segment: "Segment | None", delay_ms: int) -> None:
        self.directory = directory
        self.paths = paths
        self.segment = segment
        self.delay_ms = delay_ms
        self.due_ms: int | None = None


class Deletions:
    """The pending deletions of one log folder, by partition folder."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._leaving: dict[str, list[tuple[Segment, int]]] = {}
        # By the path of the log file: a file renamed to an existing path has replaced that file.
        self._moved: dict[str, _Moved] = {}
        self._lock = Lock()  # guards the dicts; never held during I/O
        self._running = Lock()  # held during file operations

    def begin(self, directory: str, segments: "Sequence[Segment]", delay_ms: int) -> None:
        """Schedule the deletion of segments removed from the log in `directory`. They must be its oldest."""
        for segment in segments:
            segment.is_leaving = True
        with self._lock:
            self._leaving.setdefault(directory, []).extend((segment, delay_ms) for segment in segments)

    def leaving(self, directory: str) -> "list[Segment]":
        """Return the segments whose files may still have their old names, in offset order."""
        return [segment for segment, _ in self._leaving.get(directory, ())]

    def is_leaving(self, directory: str) -> bool:
        """Return whether `directory` has segments that `move` has to rename."""
        return directory in self._leaving

    def move(self, directory: str) -> None:
        """Rename the files of segments that were removed from a log. May run on any thread; a failure is retried."""
        if not self.is_leaving(directory):
            return
        with self._running:
            # Sync the names that stay before any name goes.
            self._fs.sync_directory(directory)
            while leaving := self._leaving.get(directory):
                segment, delay_ms = leaving[0]
                has_moved = segment.move_away()
                self._fs.sync_directory(directory)
                if has_moved:
                    self.add(directory, segment.deleted_paths(), delay_ms, segment)
                    # A reader that still needs the segment opens the file again, and `_remove` keeps it open.
                    segment.close()
                self._forget_first(directory, segment)

    def _forget_first(self, directory: str, segment: "Segment") -> None:
        with self._lock:
            leaving = self._leaving.get(directory, [])
            if leaving and leaving[0][0] is segment:
                del leaving[0]
            if not leaving:
                self._leaving.pop(directory, None)

    def add(self, directory: str, paths: Sequence[str], delay_ms: int, segment: "Segment | None" = None) -> None:
        """Schedule the removal of renamed files; pass `segment` if it may open them again."""
        with self._lock:
            self._moved[paths[0]] = _Moved(directory, paths, segment, delay_ms)

    @property
    def is_waiting(self) -> bool:
        """Whether any files wait for `remove_due`."""
        return bool(self._moved)

    def remove_due(self, now_ms: int) -> int:
        """Remove files whose delay is over. May run on any thread. Return the number of segments."""
        with self._running:
            due = []
            for path, moved in tuple(self._moved.items()):
                if moved.due_ms is None:
                    moved.due_ms = now_ms + moved.delay_ms
                if moved.due_ms <= now_ms:
                    due.append((path, moved))
            for path, moved in due:
                self._remove(path, moved)
            return len(due)

    def finish(self, directory: str) -> None:
        """Rename and remove at once all files of segments removed from the log in `directory`, to reuse the names."""
        self.move(directory)
        if any(moved.directory == directory for moved in tuple(self._moved.values())):
            with self._running:
                for path, moved in tuple(self._moved.items()):
                    if moved.directory == directory:
                        self._remove(path, moved)

    def _remove(self, path: str, moved: _Moved) -> None:
        if moved.segment is not None:
            moved.segment.keep()
        for name in moved.paths:
            self._fs.remove(name)
        with self._lock:
            if self._moved.get(path) is moved:
                del self._moved[path]

    def forget(self, directory: str) -> None:
        """Drop the pending deletions in `directory`, because the whole folder is being deleted."""
        with self._lock:
            self._leaving.pop(directory, None)
            for path in [path for path, moved in self._moved.items() if moved.directory == directory]:
                del self._moved[path]
