"""A bound on the names that one request repeats.

Apache Kafka answers a name as often as a request contains it. A request of a few kilobytes that repeats the name of a
large group would cause a reply of gigabytes.
"""

from collections.abc import Hashable

from tailrace.base.request_limits import REPEATED_NAMES_MAX


class Repetitions:
    """The names of one request, and how many repetitions are still answered."""

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._left = REPEATED_NAMES_MAX

    def admits(self, name: Hashable) -> bool:
        """Return whether the next name of the request is answered: it is new, or few names were repeated before it."""
        if name not in self._seen:
            self._seen.add(name)
            return True
        self._left -= 1
        return self._left >= 0
