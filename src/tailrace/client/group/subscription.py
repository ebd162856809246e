"""The subscription of a member: names, or a pattern that the client or the coordinator matches."""

import re
from collections.abc import Iterable

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.discovery import find_topics

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_PLAIN = re.UNICODE | re.IGNORECASE | re.MULTILINE | re.DOTALL


class GroupSubscription:
    """Names or a pattern; `number` increases with every change."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.number = 0
        self.is_matched_here = False

    @property
    def is_empty(self) -> bool:
        return not self.names and self.pattern is None

    def set(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Replace the subscription."""
        self.names = tuple(dict.fromkeys(names))
        self.pattern = pattern
        self.is_matched_here = False
        self.number += 1

    def match_here(self) -> None:
        """Match names in the client, because the coordinator does not support the expression."""
        self.is_matched_here = True
        self.number += 1

    @property
    def broker_expression(self) -> str | None:
        """The pattern for the coordinator in RE2's syntax; None if the client must match it."""
        if self.pattern is None or self.is_matched_here or self.pattern.flags & ~_PLAIN:
            return None
        letters = "".join(letter for flag, letter in _FLAGS.items() if self.pattern.flags & flag)
        return f"(?{letters}){self.pattern.pattern}" if letters else self.pattern.pattern

    async def find_names(self, cluster: Cluster) -> list[str]:
        """Return the names, or those of all matching topics."""
        if self.pattern is None:
            return list(self.names)
        found = await find_topics(cluster, (), self.pattern)
        return sorted(topic.name for topic in found if not topic.is_internal)
