"""The topics of a subscription without a group, by name and by pattern."""

import re
from collections.abc import Iterable

from tailrace.client.cluster import Cluster
from tailrace.client.metadata import Topic


class Discovery:
    """The subscription, and the time of the last search for its topics."""

    def __init__(self, max_age_s: float) -> None:
        self.is_running = False
        self._max_age_s = max_age_s
        self._names: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._found_at_s: float | None = None

    @property
    def wanted(self) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
        """The subscription; it differs after another call of `subscribe`."""
        return self._names, self._pattern

    @property
    def is_first(self) -> bool:
        """Whether no search has succeeded yet."""
        return self._found_at_s is None

    def want(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to other topics."""
        self._names, self._pattern = tuple(names), pattern
        self._found_at_s = None

    def is_due(self, now_s: float) -> bool:
        """Return whether the next search is due."""
        if not (self._names or self._pattern) or self.is_running:
            return False
        return self._found_at_s is None or now_s - self._found_at_s >= self._max_age_s

    def note(self, now_s: float) -> None:
        """Record a search."""
        self._found_at_s = now_s


async def find_topics(cluster: Cluster, names: Iterable[str], pattern: re.Pattern[str] | None) -> list[Topic]:
    """Return the topics of these names, which must exist, and those whose whole names match."""
    found = {}
    for name in names:
        cluster.forget(name)
        found[name] = await cluster.topic(name)
    if pattern is not None:
        view = await cluster.refresh(None)
        found |= {name: topic for name, topic in view.topics.items() if pattern.fullmatch(name) and not topic.error}
    return list(found.values())
