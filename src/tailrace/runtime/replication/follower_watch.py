"""The partitions of a follower's fetch session that have changed since its last fetch.

A follower may fetch thousands of partitions in one session, of which few change at a time. Looking at all of them for
each fetch would cost more than replication itself. So the session is registered with each partition, and a fetch looks
only at partitions that notified it, that the follower named, or that an earlier reply left out.
"""

from collections.abc import Iterable

from tailrace.machines.fetch_session import Key
from tailrace.runtime.fetch_wait import FetchWait
from tailrace.runtime.partition import Partition


class FollowerWatch:
    """The partitions of one follower's session, and which of them have changed."""

    __slots__ = ("_entries", "_news", "_wait", "fetched_ms")

    def __init__(self) -> None:
        self.fetched_ms = 0
        self._entries: dict[Key, tuple[Partition, _Entry, _Entry]] = {}
        self._news: dict[Key, None] = {}
        self._wait: FetchWait | None = None

    def begin(self, now_ms: int, named: Iterable[Key], forgotten: Iterable[Key]) -> None:
        """Begin the answer to a new fetch."""
        self.fetched_ms = now_ms
        for key in forgotten:
            self._leave(key)
        self._news.update(dict.fromkeys(named))

    def news(self) -> list[Key]:
        """Return the partitions to look at."""
        return list(self._news)

    def look(self, key: Key, partition: Partition) -> None:
        """Register with a partition; another partition may have its name by now."""
        entry = self._entries.get(key)
        if entry is not None and entry[0] is partition:
            return
        if entry is not None:
            self._leave(key)
        written, committed = _Entry(self, key, is_awaited=True), _Entry(self, key, is_awaited=False)
        partition.waiters.add(written, for_end=True)
        partition.waiters.add(committed)
        self._entries[key] = partition, written, committed
        self._news[key] = None

    def told(self, key: Key) -> None:
        """Note that the reply tells the follower everything new about a partition."""
        self._news.pop(key, None)

    async def wait(self, wait: FetchWait, timeout_s: float) -> None:
        """Wait until enough was appended, a partition changed its state, or the time is over."""
        self._wait = wait
        try:
            await wait.wait((), timeout_s)
        finally:
            self._wait = None

    def close(self) -> None:
        """Unregister from all partitions."""
        for key in list(self._entries):
            self._leave(key)

    def _leave(self, key: Key) -> None:
        self._news.pop(key, None)
        if (entry := self._entries.pop(key, None)) is not None:
            partition, written, committed = entry
            partition.waiters.remove(written)
            partition.waiters.remove(committed)

    def changed(self, key: Key) -> FetchWait | None:
        """Note a change of a partition; return the fetch that waits for one, if any."""
        self._news[key] = None
        return self._wait


class _Entry:
    """The registration of a session with one partition."""

    __slots__ = ("_is_awaited", "_key", "_watch")

    def __init__(self, watch: FollowerWatch, key: Key, *, is_awaited: bool) -> None:
        self._watch = watch
        self._key = key
        self._is_awaited = is_awaited

    def appended(self, size_bytes: int) -> None:
        wait = self._watch.changed(self._key)
        # A higher high watermark is a change, but does not end the wait of a fetch.
        if wait is not None and self._is_awaited:
            wait.appended(size_bytes)

    def disturbed(self) -> None:
        wait = self._watch.changed(self._key)
        if wait is not None:
            wait.disturbed()
