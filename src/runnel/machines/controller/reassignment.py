"""Partitions that move from brokers to others (KIP-455).

A partition that moves has all its replicas, the old and the new, until every new one is in sync. Then the old ones
go, all at once. Until then it can be sent elsewhere or called back.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Placement(NamedTuple):
    """The replicas of one partition, and which of them are to come and to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


def begin(now: Placement, target: Sequence[int], eligible: Collection[int]) -> Placement:
    """The placement on the way to `target`. Of an earlier way only those stay who have something: the `eligible`."""
    held = [broker for broker in now.replicas if broker not in now.adding or broker in eligible]
    removing = tuple(broker for broker in held if broker not in target)
    adding = tuple(broker for broker in target if broker not in held)
    return Placement((*target, *removing), adding, removing)


def complete(now: Placement, isr: Sequence[int]) -> Placement | None:
    """The placement at the end of the way, if it can end while `isr` is in sync."""
    if not now.is_moving:
        return None
    replicas = tuple(broker for broker in now.replicas if broker not in now.removing)
    staying = [broker for broker in isr if broker not in now.removing]
    # A new broker may be ill: it has to show that it can keep up first.
    if not staying or not replicas or not set(now.adding) <= set(staying):
        return None
    # With fewer replicas than before, those that stay must not leave the partition with fewer copies than it has now.
    if len(now.adding) < len(now.removing) and not set(replicas) <= set(staying):
        return None
    return Placement(replicas)


def revert(now: Placement) -> Placement:
    """The placement before the way began."""
    return Placement(tuple(broker for broker in now.replicas if broker not in now.adding))
