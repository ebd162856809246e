"""The pool of open segment files of a broker.

Theory of operation. A segment reports how many descriptors it holds: one for its file, and one
for each mapped index. When all segments together exceed the limit, the oldest ones close their
files, and open them again on demand. A segment that was used since it was last considered gets a
second chance, which approximates the order of use at the cost of setting a flag.

A file with unsynced bytes is closed last, and synced before that. The kernel reports a failed
write only to processes that had the file open at the time. Once no process has it open and its
inode has left memory, the next fsync would succeed as if no write had failed.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeAlias

from tailrace.base.limits import CLOSING_FILES_MAX, SECOND_CHANCES_MAX, SEGMENT_DESCRIPTORS_MAX

Job: TypeAlias = Callable[[], None]


class Holder(Protocol):
    """A segment that can open its files again on demand."""

    is_used: bool

    @property
    def is_unsynced(self) -> bool: ...

    def forget(self) -> Job | None:
        """Drop all files. The caller runs the returned job, if any, before the last of them closes."""


class HandlePool:
    """Holders of descriptors, roughly in the order of their last use. Safe to use from any thread."""

    def __init__(self, count_max: int = SEGMENT_DESCRIPTORS_MAX) -> None:
        self.count_max = count_max
        self.count = 0
        # A sync before a close may wait for the disk, which the event loop must not do.
        self.defer: Callable[[Job], object] | None = None
        self._counts: dict[Holder, int] = {}
        self._closing_count = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, holder: Holder, count: int) -> None:
        """Set the number of descriptors of a holder, and close files of others until the limit holds."""
        with self._lock:
            self.count += count - self._counts.pop(holder, 0)
            self._counts[holder] = count
            leaving = self._choose(holder) if self.count > self.count_max else ()
        for oldest in leaving:
            job = oldest.forget()
            if job is not None:
                self._close(job)

    def discard(self, holder: Holder) -> None:
        """Remove a holder that has no descriptors any more, or none that it could close."""
        with self._lock:
            self.count -= self._counts.pop(holder, 0)

    def _choose(self, newest: Holder) -> list[Holder]:
        leaving = []
        chances = SECOND_CHANCES_MAX
        while self.count > self.count_max and len(self._counts) > 1:
            oldest = next(iter(self._counts))
            count = self._counts.pop(oldest)
            if oldest is newest or (chances > 0 and (oldest.is_used or oldest.is_unsynced)):
                oldest.is_used = False
                chances -= 1
                self._counts[oldest] = count
            else:
                self.count -= count
                leaving.append(oldest)
        return leaving

    def _close(self, job: Job) -> None:
        with self._lock:
            defer = self.defer if self._closing_count < CLOSING_FILES_MAX else None
            self._closing_count += 1

        def run() -> None:
            try:
                job()
            finally:
                with self._lock:
                    self._closing_count -= 1

        if defer is None:
            run()
        else:
            defer(run)
