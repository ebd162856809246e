"""What a coordinator's log holds, and what of it has to be replayed.

Most records of a busy coordinator are about what has changed again since. Of some records in a row only the last of
each key counts, as compaction would have it. Transactions make that finer. A record counts within its transaction
alone, since nobody knows yet whether it commits. A tombstone voids what transactions have pending, so a later
value does not stand in for it.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from runnel.records.batch import NO_PRODUCER_ID

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")


class LogEntry(NamedTuple, Generic[R]):
    """A record, where it stands, and in whose transaction: NO_PRODUCER_ID if in none."""

    record: R
    offset: int
    producer_id: int = NO_PRODUCER_ID


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer_id: int
    is_commit: bool


class ReplayKeys:
    """Tells which entries of a piece of a log stand for each other: those of the same replay key."""

    def __init__(self) -> None:
        self._ended: dict[int, int] = {}

    def of_record(self, key: bytes, value: object | None, producer_id: int = NO_PRODUCER_ID) -> Hashable:
        """The replay key of a record; asked in the order of the log. That of a plain value is the key itself."""
        if producer_id != NO_PRODUCER_ID:
            return key, producer_id, self._ended.get(producer_id, 0)
        return (key,) if value is None else key

    def of_end(self, producer_id: int) -> Hashable:
        """The replay key of a marker, behind which another transaction of its producer begins."""
        self._ended[producer_id] = count = self._ended.get(producer_id, 0) + 1
        return producer_id, count


def newest(entries: Iterable[tuple[K, T]]) -> dict[K, T]:
    """What counts of some entries in a row, by their replay keys: the last of each, where it stood."""
    found: dict[K, T] = {}
    for key, value in entries:
        found.pop(key, None)
        found[key] = value
    return found
