"""Many deadlines, most of which are moved again and again before they come.

A session is prolonged with every heartbeat. A deadline that moves away stays where it is in a heap and is looked at
again when its old time comes. One that comes nearer, or is cancelled, leaves an entry behind that means nothing; when
these are more than the others, the heap is made anew.
"""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")

_STALE_COUNT_MIN = 64  # fewer entries than these are not worth a new heap


class Deadlines(Generic[K]):
    """Keys, each with the time at which it is due."""

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}
        self._entry_ms: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0  # decides between equal times, for keys may not be comparable

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, key: K, at_ms: int) -> None:
        """Make `key` due at this time and no other."""
        self._due_ms[key] = at_ms
        if self._entry_ms.get(key, at_ms + 1) > at_ms:
            self._push(key, at_ms)

    def cancel(self, key: K) -> None:
        """Remove `key`."""
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        """Return a time before which no key is due; None if there are no keys."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> list[K]:
        """Remove the keys that are due and return them, the earliest first."""
        taken = []
        while self._heap and self._heap[0][0] <= now_ms:
            entry_ms, _, key = heappop(self._heap)
            if self._entry_ms.get(key) != entry_ms:
                continue  # an earlier entry took its place
            del self._entry_ms[key]
            due_ms = self._due_ms.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due_ms[key]
                taken.append(key)
            else:
                self._push(key, due_ms)
        return taken

    def _push(self, key: K, at_ms: int) -> None:
        if len(self._heap) > 2 * len(self._due_ms) + _STALE_COUNT_MIN:
            self._make_anew()
        self._entry_ms[key] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, key))

    def _make_anew(self) -> None:
        self._entry_ms = dict(self._due_ms)
        self._heap = [(at_ms, number, key) for number, (key, at_ms) in enumerate(self._due_ms.items())]
        heapify(self._heap)
