"""A partition of a group has one owner in a generation.

What the protocols promise, and what they do not:

- Classic protocol: the leader's assignment of a generation gives each partition to one member. A partition changes
  hands only in a later generation: an eager member gives it up before it joins, and a cooperative one in the generation
  in which it is no longer assigned, before the generation in which another member gets it.
- Consumer protocol: a member epoch names a target assignment. The coordinator gives a partition to a member of a newer
  epoch only after the owner has given it up, and moves the owner to that epoch only then.
- A member that was expelled, paused or cut off may believe that it owns a partition that another member has in a newer
  generation. It cannot know better, so this alone is no anomaly; its commits are refused, which `group_watch` checks.
- The same static member has the same partitions in the same generation after a restart.

So there are two anomalies: two members get a partition in the same generation, and a member that knows a generation
still has a partition from before, which another member got in that generation or in one between.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import History, Operation

_UNKNOWN = -1  # the member is in no generation at the moment, or in one that cannot be compared


class _Claim(NamedTuple):
    """A member got a partition."""

    process: str
    member: str  # its instance id, if it is static
    generation: int
    line: int


def find_two_owners(history: History) -> Iterator[Finding]:
    """Find partitions that two members of a group own in one generation."""
    claims: dict[tuple[str, str], list[_Claim]] = {}
    for change in history.of("assign"):
        if "generation" not in change.asked:
            continue  # not of a group
        for partition in change.asked["partitions"]:
            known = claims.setdefault((change.asked["group"], partition), [])
            if change.asked["change"] == "assigned":
                yield from _two_in_a_generation(change, partition, known)
                known.append(_claim(change))
            elif change.asked["change"] == "revoked":
                yield from _kept_too_long(change, partition, known)


def _claim(change: Operation) -> _Claim:
    return _Claim(change.process, change.asked["member"], change.asked["generation"], change.begun)


def _two_in_a_generation(change: Operation, partition: str, known: list[_Claim]) -> Iterator[Finding]:
    own = _claim(change)
    for other in known:
        if _UNKNOWN != own.generation == other.generation and other.member != own.member:
            text = f"{other.process} and {own.process} got {partition} in generation {own.generation}"
            yield Finding("two-owners", change.asked["group"], text, (other.line, own.line))


def _kept_too_long(change: Operation, partition: str, known: list[_Claim]) -> Iterator[Finding]:
    """Find members that got the partition after this one, in a generation that this one knows."""
    here = _claim(change)
    own = next((claim for claim in reversed(known) if claim.process == here.process), None)
    if own is None or own.generation == _UNKNOWN:
        return
    later = [other for other in known if other.line > own.line and other.member != here.member]
    for other in later:
        if own.generation < other.generation <= here.generation:
            text = f"{here.process} still had {partition} in generation {here.generation}, which {other.process} got"
            yield Finding("two-owners", change.asked["group"], f"{text} in {other.generation}", (other.line, here.line))
