"""The owners of partitions as the members of groups know them, and whether each partition has exactly one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.process import Process


class _Stay(NamedTuple):
    """One life of a member, from joining its group to leaving it."""

    group: str
    name: str
    process: Process | None


class Owners:
    """What each living member has. A killed program takes its partitions along."""

    def __init__(self) -> None:
        self._held: dict[_Stay, set[TopicPartition]] = {}

    def join(self, group: str, name: str, process: Process | None) -> _Stay:
        """Add a member without partitions."""
        stay = _Stay(group, name, process)
        self._held[stay] = set()
        return stay

    def change(self, stay: _Stay, change: str, partitions: Sequence[TopicPartition]) -> None:
        """Apply what a member was told: partitions that are assigned, revoked or lost."""
        held = self._held.setdefault(stay, set())
        if change == "assigned":
            held.update(partitions)
        else:
            held.difference_update(partitions)

    def leave(self, stay: _Stay) -> None:
        """Remove a member with all that it has."""
        self._held.pop(stay, None)

    def find_wrong(self, group: str, wanted: Iterable[TopicPartition]) -> Iterator[str]:
        """Yield the partitions that no member of a group has, or several."""
        living = {stay: held for stay, held in self._held.items() if stay.process is None or stay.process.is_alive}
        for target in sorted(wanted):
            owners = sorted(stay.name for stay, held in living.items() if stay.group == group and target in held)
            if len(owners) != 1:
                yield f"{target} of group {group} is with {' and '.join(owners) or 'no member'}"
