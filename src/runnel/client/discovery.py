"""What a subscription without a group means at the moment: topics by name and by pattern."""

import re
from collections.abc import Iterable

from runnel.client.cluster import Cluster
from runnel.client.metadata import Topic


class Discovery:
    """Topics that are wanted, and when they were last looked for."""

    def __init__(self, max_age_s: float) -> None:
        self.is_running = False
        self._max_age_s = max_age_s
        self._names: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._found_at_s: float | None = None

    @property
    def wanted(self) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
        """What is subscribed to; another value means that somebody has subscribed to something else."""
        return self._names, self._pattern

    @property
    def is_first(self) -> bool:
        """Whether nothing has been found yet."""
        return self._found_at_s is None

    def want(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to other topics."""
        self._names, self._pattern = tuple(names), pattern
        self._found_at_s = None

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to look."""
        if not (self._names or self._pattern) or self.is_running:
            return False
        return self._found_at_s is None or now_s - self._found_at_s >= self._max_age_s

    def note(self, now_s: float) -> None:
        """Somebody has looked."""
        self._found_at_s = now_s


async def find_topics(cluster: Cluster, names: Iterable[str], pattern: re.Pattern[str] | None) -> list[Topic]:
    """The topics of these names, which must be there, and those whose whole names match."""
    found = {}
    for name in names:
        cluster.forget(name)
        found[name] = await cluster.topic(name)
    if pattern is not None:
        view = await cluster.refresh(None)
        found |= {name: topic for name, topic in view.topics.items() if pattern.fullmatch(name) and not topic.error}
    return list(found.values())
