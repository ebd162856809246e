"""The position of a query in a Redis stream. Pure.

A position is the id of the last entry that was read. Two counts beside it show whether entries are missing:

- `read` is the number of entries that the query has found up to this id. The difference of two positions is the number
  of rows of the batch between them, also if the batch is read again after a crash.
- `added` is the number of entries that were ever added to the stream up to this id, as far as the server counts them
  (Redis 7 does). A stream loses its oldest entries when it is trimmed. If its first entry lies after the position, all
  its entries are unread, so the difference to the number ever added is the number of entries that were lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BEGIN = "0-0"
"""The position before the first entry, because no entry can have this id."""


def id_key(entry_id: str) -> tuple[int, int]:
    """Return the milliseconds and the number of an entry id, by which ids are ordered."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)


@dataclass(frozen=True, slots=True)
class Position:
    """The last entry that was read, and the counts up to it."""

    id: str = BEGIN
    read: int = 0
    added: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position for Spark's offset log."""
        return {"id": self.id, "read": self.read, "added": self.added}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Position":
        """Return a position of Spark's offset log."""
        return cls(str(value["id"]), int(value["read"]), None if value.get("added") is None else int(value["added"]))


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream at one moment; the default is a stream that does not exist."""

    length: int = 0
    first_id: str | None = None
    last_id: str = BEGIN
    added: int | None = None
    """The number of entries that were ever added; None if the server does not count them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The entries after a position: their number, up to a limit, and the id of the last one."""

    count: int
    last_id: str


def find_loss(position: Position, state: StreamState) -> str | None:
    """Return what was deleted before the query could read it; None if nothing was."""
    if id_key(state.last_id) < id_key(position.id):
        return f"the stream ends at {state.last_id}, before the position {position.id}: it was deleted or restored"
    if position.id in (BEGIN, state.last_id) or _has_entry_up_to(position, state):
        return None
    if position.added is None or state.added is None:
        return f"entries after {position.id} may have been trimmed: the first entry is {state.first_id}"
    lost = state.added - position.added - state.length
    if lost <= 0:
        return None
    return f"{lost} entries after {position.id} were deleted: the first entry is {state.first_id}"


def advance(position: Position, state: StreamState, found: Found, *, is_all: bool) -> Position:
    """Return the position after the entries that were found; `is_all` if no others follow."""
    if found.count == 0:
        return position
    if state.added is None:
        added = None
    elif is_all:
        added = state.added
    elif _has_entry_up_to(position, state):
        added = None if position.added is None else position.added + found.count
    else:
        added = state.added - (state.length - found.count)
    return Position(found.last_id, position.read + found.count, added)


def _has_entry_up_to(position: Position, state: StreamState) -> bool:
    """Return whether an entry that was read is still there; then none after it was trimmed."""
    return state.first_id is not None and id_key(state.first_id) <= id_key(position.id)
