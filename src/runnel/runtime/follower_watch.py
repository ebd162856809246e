"""What has changed for a follower since it was last told, kept up to date by the partitions themselves.

A follower may fetch thousands of partitions in one session, of which few have news at a time. Looking at all of
them for each fetch would cost more than replicating. So the session is registered with each partition for as long as it
lives, and a fetch looks at those that have told it something, that the follower named, or that were left out before.
"""

from collections.abc import Iterable

from runnel.machines.fetch_session import Key
from runnel.runtime.fetch_wait import FetchWait
from runnel.runtime.partition import Partition


class FollowerWatch:
    """The partitions of one follower's session, and which of them have news."""

    __slots__ = ("_entries", "_news", "_wait", "fetched_ms")

    def __init__(self) -> None:
        self.fetched_ms = 0
        self._entries: dict[Key, tuple[Partition, _Entry, _Entry]] = {}
        self._news: dict[Key, None] = {}
        self._wait: FetchWait | None = None

    def begin(self, now_ms: int, named: Iterable[Key], forgotten: Iterable[Key]) -> None:
        """A fetch has come."""
        self.fetched_ms = now_ms
        for key in forgotten:
            self._leave(key)
        self._news.update(dict.fromkeys(named))

    def news(self) -> list[Key]:
        """What to look at."""
        return list(self._news)

    def look(self, key: Key, partition: Partition) -> None:
        """Be told of a partition from now on; another one may have its name by now."""
        entry = self._entries.get(key)
        if entry is not None and entry[0] is partition:
            return
        if entry is not None:
            self._leave(key)
        written, committed = _Entry(self, key, is_awaited=True), _Entry(self, key, is_awaited=False)
        partition.wait(written, for_end=True)
        partition.wait(committed)
        self._entries[key] = partition, written, committed
        self._news[key] = None

    def told(self, key: Key) -> None:
        """The follower hears of everything that is new of a partition."""
        self._news.pop(key, None)

    async def wait(self, wait: FetchWait, timeout_s: float) -> None:
        """Sleep until enough was written, something odd happened, or the time is over."""
        self._wait = wait
        try:
            await wait.wait((), timeout_s)
        finally:
            self._wait = None

    def close(self) -> None:
        """Be told of nothing any more."""
        for key in list(self._entries):
            self._leave(key)

    def _leave(self, key: Key) -> None:
        self._news.pop(key, None)
        if (entry := self._entries.pop(key, None)) is not None:
            partition, written, committed = entry
            partition.stop_waiting(written)
            partition.stop_waiting(committed)

    def changed(self, key: Key) -> FetchWait | None:
        """Note news of a partition; who waits for some."""
        self._news[key] = None
        return self._wait


class _Entry:
    """The session as one partition sees it."""

    __slots__ = ("_is_awaited", "_key", "_watch")

    def __init__(self, watch: FollowerWatch, key: Key, *, is_awaited: bool) -> None:
        self._watch = watch
        self._key = key
        self._is_awaited = is_awaited

    def appended(self, size_bytes: int) -> None:
        wait = self._watch.changed(self._key)
        # What is committed is news, but nothing to end a fetch for.
        if wait is not None and self._is_awaited:
            wait.appended(size_bytes)

    def disturbed(self) -> None:
        wait = self._watch.changed(self._key)
        if wait is not None:
            wait.disturbed()
