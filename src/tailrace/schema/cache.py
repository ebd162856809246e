"""A cache that forgets what was not used for longest. Threads may share it.

An event loop must not wait for what a cache lacks, which may be a request to a registry. So its code runs inside
`only_cached`, where a miss raises `Missing`; a thread then calls `fill`, and the code runs again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_is_only_cached: ContextVar[bool] = ContextVar("is_only_cached", default=False)


class Missing(Exception):
    """A value that has to be made first. Equal keys mean the same value."""

    def __init__(self, key: Hashable, fill: Callable[[], object]) -> None:
        super().__init__(str(key))
        self.key = key
        self.fill = fill


@contextmanager
def only_cached() -> Iterator[None]:
    """Raise `Missing` in this context where a value would have to be made."""
    token = _is_only_cached.set(True)
    try:
        yield
    finally:
        _is_only_cached.reset(token)


def raise_if_only_cached(key: Hashable, fill: Callable[[], object]) -> None:
    """Raise `Missing` inside `only_cached`."""
    if _is_only_cached.get():
        raise Missing(key, fill)


class Cache(Generic[K, V]):
    """Holds at most `count_max` values."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; make it if it is missing, which two threads may do at the same time."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        raise_if_only_cached((id(self), key), lambda: self.get(key, make))
        value = make()
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._count_max:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
