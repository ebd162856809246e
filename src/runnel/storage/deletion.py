"""The files of segments that have left their logs.

Theory of operation, which is Kafka's. A segment leaves its log in memory, on the log's thread.
Its files get the suffix `.deleted` soon after and are removed when `file.delete.delay.ms` are over,
both in the thread where folders change, because both wait for the disk. A start removes what
it finds under such names.

A crash may come before a segment has its new name; then the log begins with it again. So names
change in the order of offsets and each is on the disk before the next, or a power loss would
leave a hole behind which all is taken for a lost tail. And a flush counts those in that still
have their old names: the recovery point vouches for all that a start may find below it.
"""

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from runnel.storage.fs import FileSystem

if TYPE_CHECKING:  # segments know their folder, which knows this
    from runnel.storage.segment import Segment


class _Moved:
    """Files under the names of deleted ones. When they are due is known once somebody looks at the clock."""

    __slots__ = ("delay_ms", "directory", "due_ms", "paths", "segment")

    def __init__(self, directory: str, paths: Sequence[str], segment: "Segment | None", delay_ms: int) -> None:
        self.directory = directory
        self.paths = paths
        self.segment = segment
        self.delay_ms = delay_ms
        self.due_ms: int | None = None


class Deletions:
    """What is being deleted in one log folder, by the partition's folder."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._leaving: dict[str, list[tuple[Segment, int]]] = {}
        # By the name of the log: a file that got the name of an earlier one has replaced it.
        self._moved: dict[str, _Moved] = {}
        self._lock = Lock()  # around what is known, never for long
        self._running = Lock()  # around what is done to files

    def begin(self, directory: str, segments: "Sequence[Segment]", delay_ms: int) -> None:
        """Take charge of segments that leave the log in `directory`, which are its oldest."""
        for segment in segments:
            segment.is_leaving = True
        with self._lock:
            self._leaving.setdefault(directory, []).extend((segment, delay_ms) for segment in segments)

    def leaving(self, directory: str) -> "list[Segment]":
        """The segments whose files may still have their old names, rising."""
        return [segment for segment, _ in self._leaving.get(directory, ())]

    def is_leaving(self, directory: str) -> bool:
        """Whether there are such segments, so that `move` has something to do."""
        return directory in self._leaving

    def move(self, directory: str) -> None:
        """Give the files of segments that left a log their new names, on any thread. What fails is tried again."""
        if not self.is_leaving(directory):
            return
        with self._running:
            # What stays must be there before anything goes.
            self._fs.sync_directory(directory)
            while leaving := self._leaving.get(directory):
                segment, delay_ms = leaving[0]
                has_moved = segment.move_away()
                self._fs.sync_directory(directory)
                if has_moved:
                    self.add(directory, segment.deleted_paths(), delay_ms, segment)
                    # Whoever reads opens the file again, and is given it when it goes.
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
        """Take charge of files that have their new names; `segment` is given if it may yet want to open them."""
        with self._lock:
            self._moved[paths[0]] = _Moved(directory, paths, segment, delay_ms)

    @property
    def is_waiting(self) -> bool:
        """Whether `remove_due` has, or will have, something to do."""
        return bool(self._moved)

    def remove_due(self, now_ms: int) -> int:
        """Remove files whose time is over, on any thread. Returns of how many segments."""
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
        """Let everything go at once that left the log in `directory`: its names are about to be used again."""
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
        """Leave everything in `directory` where it is, because all of it goes."""
        with self._lock:
            self._leaving.pop(directory, None)
            for path in [path for path, moved in self._moved.items() if moved.directory == directory]:
                del self._moved[path]
