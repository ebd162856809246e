"""Checks of leader epochs: they rise with the offsets of a partition, and the epoch of a record does not change."""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import History, Operation


def find_falling_epochs(history: History) -> Iterator[Finding]:
    """Find records whose leader epoch is lower than that of an earlier record, or has changed."""
    seen: dict[str, dict[int, tuple[int, Operation]]] = {}
    for poll in history.of("poll"):
        for record in poll.records if poll.is_ok else ():
            if record.leader_epoch is None:
                continue
            epoch, first = seen.setdefault(record.partition, {}).setdefault(record.offset, (record.leader_epoch, poll))
            if epoch != record.leader_epoch:
                text = f"offset {record.offset} had epoch {epoch} and now has epoch {record.leader_epoch}"
                yield Finding("leader-epoch-changed", record.partition, text, (first.begun, poll.begun))
    for partition, epochs in sorted(seen.items()):
        highest = -1
        for offset, (epoch, poll) in sorted(epochs.items()):
            if epoch < highest:
                text = f"offset {offset} has epoch {epoch}, after epoch {highest}"
                yield Finding("leader-epoch-falls", partition, text, (poll.begun,))
            highest = max(highest, epoch)
