"""What a member subscribes to: names, or a pattern that it or the coordinator matches with names."""

import re
from collections.abc import Iterable

from runnel.client.cluster import Cluster
from runnel.client.discovery import find_topics

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_PLAIN = re.UNICODE | re.IGNORECASE | re.MULTILINE | re.DOTALL


class GroupSubscription:
    """Names or a pattern; `number` goes up with every change."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.number = 0
        self.is_matched_here = False

    @property
    def is_empty(self) -> bool:
        return not self.names and self.pattern is None

    def set(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to something else."""
        self.names = tuple(dict.fromkeys(names))
        self.pattern = pattern
        self.is_matched_here = False
        self.number += 1

    def match_here(self) -> None:
        """Match names in the client, since the coordinator cannot or does not know the expression."""
        self.is_matched_here = True
        self.number += 1

    @property
    def broker_expression(self) -> str | None:
        """The pattern for a coordinator to match, in RE2's syntax; None where the client must do it."""
        if self.pattern is None or self.is_matched_here or self.pattern.flags & ~_PLAIN:
            return None
        letters = "".join(letter for flag, letter in _FLAGS.items() if self.pattern.flags & flag)
        return f"(?{letters}){self.pattern.pattern}" if letters else self.pattern.pattern

    async def find_names(self, cluster: Cluster) -> list[str]:
        """The names, or those of all topics that match."""
        if self.pattern is None:
            return list(self.names)
        found = await find_topics(cluster, (), self.pattern)
        return sorted(topic.name for topic in found if not topic.is_internal)
