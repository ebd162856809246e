"""The entries of a coordinator's log, and the choice of those that have to be replayed.

Most records of a busy coordinator were superseded later. Of a run of records only the last one of each key matters, as
after compaction. Transactions refine that. A transactional record is superseded only within its transaction, because
its outcome is not known yet. A tombstone cancels pending offsets of transactions, so a later value does not replace it.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from tailrace.records.batch import NO_PRODUCER_ID

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")


class LogEntry(NamedTuple, Generic[R]):
    """A record with its offset and the producer of its transaction, NO_PRODUCER_ID outside of one."""

    record: R
    offset: int
    producer_id: int = NO_PRODUCER_ID


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer_id: int
    is_commit: bool


class ReplayKeys:
    """Assigns replay keys: of entries with the same replay key, only the last one is replayed."""

    def __init__(self) -> None:
        self._ended: dict[int, int] = {}

    def of_record(self, key: bytes, value: object | None, producer_id: int = NO_PRODUCER_ID) -> Hashable:
        """Return the replay key of a record, in log order. For a value outside a transaction it is the key itself."""
        if producer_id != NO_PRODUCER_ID:
            return key, producer_id, self._ended.get(producer_id, 0)
        return (key,) if value is None else key

    def of_end(self, producer_id: int) -> Hashable:
        """Return the replay key of a marker, after which another transaction of its producer begins."""
        self._ended[producer_id] = count = self._ended.get(producer_id, 0) + 1
        return producer_id, count


def newest(entries: Iterable[tuple[K, T]]) -> dict[K, T]:
    """Return the last entry of each replay key, in log order."""
    found: dict[K, T] = {}
    for key, value in entries:
        found.pop(key, None)
        found[key] = value
    return found
