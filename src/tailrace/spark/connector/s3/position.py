"""The position of a query among the objects of a store, and the objects of its next batch. Pure.

Spark keeps the position after each batch in its checkpoint. It has the objects of the batch itself, so a batch that is
repeated reads the same ones, whatever has been added meanwhile.

By time: a store lists an object some time after the moment that it shows as its last change, because a large upload
begins earlier than it ends. So the query looks back: objects up to `look_back_ms` older than the newest one that was
read are read, too, if they have not been read before. The position has the keys of those that were.

By name: only names that come after the last one are new. No keys are needed, and a listing can begin there.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

_KEY_SIZE = 12


class Order(StrEnum):
    """The order in which objects are read."""

    MODIFIED = "modified"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Found:
    """An object in a listing."""

    name: str
    modified_ms: int
    size: int
    tag: str | None = None

    @property
    def key(self) -> str:
        """What tells this state of the object from others: an object that is written again is read again."""
        text = f"{self.name}\n{self.tag or self.modified_ms}"
        return hashlib.blake2b(text.encode(), digest_size=_KEY_SIZE).hexdigest()


@dataclass(frozen=True, slots=True)
class Position:
    """How far a query has come."""

    number: int = 0
    """The number of batches, so that no two positions are equal."""
    after_ms: int | None = None
    after_name: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)
    """The time of each object that was read and is not too old, by key."""
    objects: tuple[Found, ...] = ()
    """The objects of the batch that ends here."""

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark keeps it."""
        return {
            "number": self.number,
            "after_ms": self.after_ms,
            "after_name": self.after_name,
            "seen": dict(self.seen),
            "objects": [[each.name, each.modified_ms, each.size, each.tag] for each in self.objects],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Position":
        """Return a position that Spark has kept."""
        objects = tuple(Found(*each) for each in found["objects"])
        return cls(found["number"], found["after_ms"], found["after_name"], dict(found["seen"]), objects)


def admit(
    position: Position, listing: Iterable[Found], order: Order, *, look_back_ms: int, objects_max: int
) -> Position | None:
    """Return the position after the next batch, with the objects of it; None without new objects."""
    if order is Order.NAME:
        new = sorted((each for each in listing if each.name > position.after_name), key=lambda each: each.name)
        taken = tuple(new[:objects_max])
        last = replace(position, after_name=taken[-1].name) if taken else position
    else:
        horizon_ms = None if position.after_ms is None else position.after_ms - look_back_ms
        recent = (each for each in listing if horizon_ms is None or each.modified_ms >= horizon_ms)
        new = sorted(
            (each for each in recent if each.key not in position.seen), key=lambda each: (each.modified_ms, each.name)
        )
        taken = tuple(new[:objects_max])
        last = _after(position, taken, look_back_ms)
    return replace(last, number=position.number + 1, objects=taken) if taken else None


def _after(position: Position, taken: tuple[Found, ...], look_back_ms: int) -> Position:
    times = [each.modified_ms for each in taken] + ([] if position.after_ms is None else [position.after_ms])
    after_ms = max(times, default=None)
    if after_ms is None:
        return position
    seen = {**position.seen, **{each.key: each.modified_ms for each in taken}}
    kept = {key: at_ms for key, at_ms in seen.items() if at_ms >= after_ms - look_back_ms}
    return replace(position, after_ms=after_ms, seen=kept)
