"""Checks of committed offsets: they never go back, and do not come from an aborted transaction.

A member starts at the committed offset of its group, so no member ever commits less, by itself or in a transaction. A
lower offset may be a delayed commit with an unknown outcome, which may still arrive.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.checkers.transaction_read import early_name
from tailrace.sim.history import FAIL, INFO, History, Operation

_Offset = tuple[str, str, int]
"""A group, a partition, and an offset."""


class _Sighting(NamedTuple):
    """An offset that the group certainly had at some time during an operation."""

    offset: int
    operation: Operation

    @property
    def verb(self) -> str:
        return "found" if self.operation.kind == "committed" else "committed"

    def is_compared_with(self, earlier: "_Sighting") -> bool:
        """Return whether the earlier offset must not be higher. A transaction without its offsets is torn instead."""
        is_torn = earlier.operation.kind == "end" and self.operation.kind == "committed"
        return not is_torn and earlier.operation.ended_before(self.operation)


def find_group_regressions(history: History) -> Iterator[Finding]:
    """Find committed offsets that are lower than an offset committed or fetched before the operation began."""
    doubtful = doubtful_offsets(history)
    for (group, partition), seen in sorted(_sightings(history).items()):
        for sighting in seen:
            before = [other for other in seen if sighting.is_compared_with(other)]
            earlier = max(before, key=lambda other: other.offset, default=sighting)
            if sighting.offset < earlier.offset and (group, partition, sighting.offset) not in doubtful:
                process = sighting.operation.process
                text = f"{process} {sighting.verb} {sighting.offset} of {partition} after {earlier.offset}"
                lines = (earlier.operation.begun, sighting.operation.begun)
                yield Finding("group-offset-regression", group, text, lines)


def find_dirty_offsets(history: History) -> Iterator[Finding]:
    """Find offsets of a group that only an uncommitted transaction could have written."""
    offered = _offered(history)
    plain = {
        (commit.asked["group"], partition, offset)
        for commit in history.of("commit")
        for partition, offset in commit.asked["offsets"].items()
        if commit.outcome != FAIL
    }
    for look in history.of("committed"):
        for partition, offset in look.told.get("offsets", {}).items() if look.is_ok else ():
            place = (look.asked["group"], partition, offset)
            givers = offered.get(place, [])
            if place in plain or not givers or any(giver.was_asked_before(look) for giver in givers):
                continue
            text = f"{look.process} found {offset} of {partition}, which only {givers[0].name} would have committed"
            yield Finding(early_name(givers[0], look), place[0], text, (givers[0].begun, look.begun))


def doubtful_offsets(history: History) -> set[_Offset]:
    """Return the offsets whose commit has an unknown outcome, and which may arrive late."""
    found = {
        (commit.asked["group"], partition, offset)
        for commit in history.of("commit")
        if commit.outcome == INFO
        for partition, offset in commit.asked["offsets"].items()
    }
    return found | {
        (part.asked["group"], partition, offset)
        for transaction in transactions(history)
        if transaction.is_doubtful
        for part in transaction.offsets
        for partition, offset in part.asked["offsets"].items()
    }


def _sightings(history: History) -> dict[tuple[str, str], list[_Sighting]]:
    found: dict[tuple[str, str], list[_Sighting]] = {}

    def see(group: str, offsets: dict[str, int], operation: Operation) -> None:
        for partition, offset in offsets.items():
            found.setdefault((group, partition), []).append(_Sighting(offset, operation))

    for operation in history.of("commit", "committed"):
        if operation.is_ok:
            answers = operation.asked if operation.kind == "commit" else operation.told
            see(operation.asked["group"], answers.get("offsets", {}), operation)
    for transaction in transactions(history):
        for end in transaction.commits:
            for part in transaction.offsets if end.is_ok else ():
                see(part.asked["group"], part.asked["offsets"], end)
    return found


def _offered(history: History) -> dict[_Offset, list[Transaction]]:
    """Return the transactions that would commit each offset."""
    found: dict[_Offset, list[Transaction]] = {}
    for transaction in transactions(history):
        for part in transaction.offsets:
            for partition, offset in part.asked["offsets"].items():
                found.setdefault((part.asked["group"], partition, offset), []).append(transaction)
    return found
