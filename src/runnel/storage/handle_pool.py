"""Which segments of a broker have their files open.

Theory of operation. A segment says how many descriptors it holds: one for its file, and one
for each index that is mapped. When all segments together hold more than the bound, those that
came first let go, and open their files again when they are wanted. One that was used since it
was last looked at stays a while longer, which is nearly the order of use but costs a user no
more than setting a flag.

A file whose bytes are not all synced is closed last, and synced before. The kernel tells of
bytes that it could not write to those who had the file open at the time. Once nobody has, and
the file's inode has left the memory, the next fsync would succeed as if nothing had happened.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeAlias

from runnel.base.limits import CLOSING_FILES_MAX, SECOND_CHANCES_MAX, SEGMENT_DESCRIPTORS_MAX

Job: TypeAlias = Callable[[], None]


class Holder(Protocol):
    """A segment that can open its files again when it needs them."""

    is_used: bool

    @property
    def is_unsynced(self) -> bool: ...

    def forget(self) -> Job | None:
        """Let go of all files. What is returned has yet to be done before the last of them closes."""


class HandlePool:
    """Holders of descriptors, about in the order in which they were last used. Any thread may come."""

    def __init__(self, count_max: int = SEGMENT_DESCRIPTORS_MAX) -> None:
        self.count_max = count_max
        self.count = 0
        # Syncing what is about to be closed may wait for the disk, which an event loop must not.
        self.defer: Callable[[Job], object] | None = None
        self._counts: dict[Holder, int] = {}
        self._closing_count = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, holder: Holder, count: int) -> None:
        """Note how many descriptors a holder has now, and let others go until there is room."""
        with self._lock:
            self.count += count - self._counts.pop(holder, 0)
            self._counts[holder] = count
            leaving = self._choose(holder) if self.count > self.count_max else ()
        for oldest in leaving:
            job = oldest.forget()
            if job is not None:
                self._close(job)

    def discard(self, holder: Holder) -> None:
        """Note that a holder has no descriptors any more, or none that it could give back."""
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
