"""Reassignment of partitions to other brokers (KIP-455).

While a partition is reassigned it has all old and all new replicas, until every new one is in sync. Then all old ones
are removed at once. Until then the reassignment can be changed or cancelled.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Placement(NamedTuple):
    """The replicas of a partition, and which of them are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


def begin(now: Placement, target: Sequence[int], eligible: Collection[int]) -> Placement:
    """Return the placement while the partition is reassigned to `target`.

    Of the brokers that an earlier reassignment was adding, only those in `eligible` stay: the others have no records.
    """
    held = [broker for broker in now.replicas if broker not in now.adding or broker in eligible]
    removing = tuple(broker for broker in held if broker not in target)
    adding = tuple(broker for broker in target if broker not in held)
    return Placement((*target, *removing), adding, removing)


def complete(now: Placement, isr: Sequence[int]) -> Placement | None:
    """Return the placement after the reassignment, if it can end with this ISR; else None."""
    if not now.is_moving:
        return None
    replicas = tuple(broker for broker in now.replicas if broker not in now.removing)
    staying = [broker for broker in isr if broker not in now.removing]
    # A new replica has to show that it can keep up before old ones are removed.
    if not staying or not replicas or not set(now.adding) <= set(staying):
        return None
    # If the replication factor shrinks, every replica that stays must be in sync: else the partition could end up with
    # fewer copies of its records than wanted.
    if len(now.adding) < len(now.removing) and not set(replicas) <= set(staying):
        return None
    return Placement(replicas)


def revert(now: Placement) -> Placement:
    """Return the placement before the reassignment."""
    return Placement(tuple(broker for broker in now.replicas if broker not in now.adding))
