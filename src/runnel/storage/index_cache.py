"""Which sealed segments keep their indexes in memory and their files open."""

from threading import Lock
from typing import Protocol

from runnel.base.limits import SEALED_INDEX_BYTES_MAX, SEALED_SEGMENT_BYTES_MIN


class Holder(Protocol):
    """A segment that can read its indexes again when it needs them."""

    def forget(self) -> None:
        """Let go of indexes and file."""


class IndexCache:
    """Holders in the order in which they took up memory; the oldest forget first.

    The order is that of loading, not of use, so that a read of a loaded index costs nothing
    here. One that is in steady use is read again now and then.
    """

    def __init__(self, size_bytes_max: int = SEALED_INDEX_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self._sizes: dict[Holder, int] = {}
        self.size_bytes = 0
        # Partitions are deleted in a worker thread.
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, holder: Holder, size_bytes: int) -> None:
        """Note that a holder takes so much memory now, and let others forget until there is room."""
        size_bytes = max(size_bytes, SEALED_SEGMENT_BYTES_MIN)
        forgetting = []
        with self._lock:
            self.size_bytes += size_bytes - self._sizes.pop(holder, 0)
            self._sizes[holder] = size_bytes
            while self.size_bytes > self._size_bytes_max and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                self.size_bytes -= self._sizes.pop(oldest)
                forgetting.append(oldest)
        for oldest in forgetting:
            oldest.forget()

    def discard(self, holder: Holder) -> None:
        """Note that a holder takes no memory any more, or none that it could give back."""
        with self._lock:
            self.size_bytes -= self._sizes.pop(holder, 0)
