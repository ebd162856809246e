"""The shell around the groups of one partition, whose log also holds offsets of transactions."""

from collections.abc import Callable
from typing import TypeVar

from runnel.machines.group.coordinator import GroupCoordinator
from runnel.machines.log_record import Record
from runnel.machines.log_replay import LogEntry, TransactionEnd
from runnel.runtime.coordinator_shard import CoordinatorShard

T = TypeVar("T")


class GroupShard(CoordinatorShard[GroupCoordinator, Record]):
    """The groups of one partition of `__consumer_offsets`."""

    def end_transaction(self, end: TransactionEnd, append: Callable[[], T]) -> T:
        """Have `append` write a marker and take it in, in one step.

        The shard is loaded. One that still loads might read the marker or be loaded before it is committed, and nobody
        could tell which.
        """
        appended = append()
        self._replay(end)
        return appended

    def _replay(self, entry: LogEntry[Record] | TransactionEnd) -> None:
        match entry:
            case LogEntry(record, offset, producer_id):
                self.machine.replay(record, offset, producer_id)
            case TransactionEnd(producer_id, is_commit):
                self.machine.replay_transaction_end(producer_id, is_commit=is_commit)
