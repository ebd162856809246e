"""The position in the stream of a table's new rows, and how far a batch goes. Pure.

The stream begins with the files of one version, the first. The files that each later version adds follow.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tailrace.spark.connector.lake.table_file import Described


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A version, and how many of its files have been read; None before the first version."""

    first: int | None = None
    version: int | None = None
    taken: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark keeps it."""
        return {"first": self.first, "version": self.version, "taken": self.taken}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "StreamPosition":
        """Return a position that Spark has kept."""
        return cls(stored["first"], stored["version"], stored["taken"])


class NewFiles(NamedTuple):
    """A version, and the files that it adds to the stream."""

    version: int
    files: Sequence[Described]


def admit(position: StreamPosition, versions: Iterator[NewFiles], files_max: int) -> StreamPosition:
    """Return the end of the next batch; the same position if there is nothing new.

    `versions` begins with that of the position, or with the first one.
    """
    left = files_max
    for version, files in versions:
        taken = position.taken if version == position.version else 0
        first = version if position.first is None else position.first
        count = min(left, len(files) - taken)
        position = replace(position, first=first, version=version, taken=taken + count)
        left -= count
        if not left:
            break
    return position


def files_between(
    start: StreamPosition, end: StreamPosition, read: Callable[[StreamPosition], Iterator[NewFiles]]
) -> list[Described]:
    """Return the files of a batch. `read` returns the versions from a position on."""
    found: list[Described] = []
    for version, files in read(replace(start, first=end.first)):
        begin = start.taken if version == start.version else 0
        found += files[begin : end.taken if version == end.version else len(files)]
        if version == end.version:
            break
    return found
