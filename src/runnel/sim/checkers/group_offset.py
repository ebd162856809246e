"""What a group has committed never goes back.

A member starts where the group has committed, so nobody ever commits less. What may be found below that is an
older commit that was thought lost: if nobody knows what became of it, it may arrive late.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runnel.sim.checkers.finding import Finding
from runnel.sim.history import FAIL, OK, History, Operation


class _Sighting(NamedTuple):
    """An offset that the group certainly had at some moment of an operation."""

    offset: int
    operation: Operation


def find_group_regressions(history: History) -> Iterator[Finding]:
    """A committed offset that is lower than one that was committed, or seen, before the operation began."""
    sightings: dict[tuple[str, str], list[_Sighting]] = {}
    doubtful: set[tuple[str, str, int]] = set()
    for operation in history.of("commit", "committed"):
        group = operation.asked["group"]
        answers = operation.asked if operation.kind == "commit" else operation.told
        for partition, offset in answers.get("offsets", {}).items():
            if operation.outcome == OK:
                sightings.setdefault((group, partition), []).append(_Sighting(offset, operation))
            elif operation.outcome != FAIL and operation.kind == "commit":
                doubtful.add((group, partition, offset))
    for (group, partition), seen in sorted(sightings.items()):
        for sighting in seen:
            before = [other for other in seen if other.operation.ended_before(sighting.operation)]
            earlier = max(before, key=lambda other: other.offset, default=sighting)
            if sighting.offset < earlier.offset and (group, partition, sighting.offset) not in doubtful:
                verb = "committed" if sighting.operation.kind == "commit" else "found"
                text = f"{sighting.operation.process} {verb} {sighting.offset} of {partition} after {earlier.offset}"
                lines = (earlier.operation.begun, sighting.operation.begun)
                yield Finding("group-offset-regression", group, text, lines)
