"""The fields in which our events differ from Debezium's on purpose, each with the reason, and their comparison.

The section "Compared with Debezium" of docs/connectors/postgres_changes.md says the same to users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace import __version__

JSON = Any
_MISSING = "(no such field)"
UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Event:
    """A record, whose key, value and headers are JSON."""

    key: JSON
    value: JSON
    headers: list[tuple[str, JSON]]

    @property
    def op(self) -> str | None:
        return None if self.value is None else self.value["op"]

    @property
    def table(self) -> str | None:
        return None if self.value is None else self.value["source"]["table"]

    def fields(self) -> dict[str, JSON]:
        """The fields of the record; a record without a value has no others than these."""
        return {"key": self.key, "headers": self.headers, **(self.value or {"value": None})}


@dataclass(frozen=True)
class Mismatch:
    """A field that differs, and the two records."""

    path: str
    theirs: JSON
    ours: JSON
    their_event: Event
    our_event: Event

    def __str__(self) -> str:
        event = self.our_event
        texts = [f"{json.dumps(value, ensure_ascii=False):.150}" for value in (self.theirs, self.ours)]
        return f"{event.table} {event.op} {event.key} {self.path}: Debezium has {texts[0]}, we have {texts[1]}"


@dataclass(frozen=True)
class Difference:
    """Fields that differ, by a pattern of their paths, why, and what holds of them all the same."""

    path: str
    reason: str
    holds: Callable[[Mismatch], bool] = lambda _: True

    def explains(self, found: Mismatch) -> bool:
        return re.fullmatch(self.path, found.path) is not None and self.holds(found)


def _is_snapshot(found: Mismatch) -> bool:
    return found.our_event.op == "r"


def _columns(*names: str) -> str:
    """Return the pattern of columns of both rows of an event."""
    return rf"(before|after)\.({'|'.join(names)})"


def _is_key_of_update(found: Mismatch) -> bool:
    return found.our_event.op == "u" and found.theirs is None and found.ours == found.our_event.key


def _is_key_of_delete(found: Mismatch) -> bool:
    """The fields that Debezium adds to the `before` of a delete are not those that PostgreSQL has sent."""
    before = found.our_event.value["before"]
    return found.our_event.op == "d" and found.ours == _MISSING and before == found.our_event.key


def _have_equal_shape(found: Mismatch) -> bool:
    """The times are those of the two connectors, in the same unit."""
    return isinstance(found.theirs, int) and len(str(found.theirs)) == len(str(found.ours))


def _is_left_out(found: Mismatch) -> bool:
    return bool(found.theirs == _MISSING)


def _is_array_of_arrays(found: Mismatch) -> bool:
    return bool((found.theirs, found.ours) == ([None, None], [[1, 2], [3, 4]]))


def _have_equal_xid(found: Mismatch) -> bool:
    theirs, ours = found.theirs.split(":"), found.ours.split(":")
    return bool(theirs[0] == ours[0] and int(theirs[1]) <= int(ours[1]))


def _is_first_change(found: Mismatch) -> bool:
    """The first change after the snapshot: Debezium has seen no commit before it."""
    theirs, ours = json.loads(found.theirs), json.loads(found.ours)
    return theirs[0] is None and theirs[1] == ours[1]


DIFFERENCES = (
    Difference(r"source\.version", "our version", lambda found: found.ours == __version__),
    Difference(r"ts_(ms|us|ns)", "the time at which the batch was planned, not that of the record", _have_equal_shape),
    Difference(
        r"source\.ts_(ms|us|ns)",
        "two snapshots have two times",
        lambda found: _is_snapshot(found) and _have_equal_shape(found),
    ),
    Difference(
        r"source\.(lsn|sequence)",
        "two slots have two positions",
        lambda found: _is_snapshot(found) and str(found.ours).startswith("[null,") is str(found.theirs).startswith("["),
    ),
    Difference(r"source\.sequence", "the start of the slot, where Debezium has null", _is_first_change),
    Difference(
        r"source\.snapshot",
        "tasks read chunks at the same time, so no row is known to be the first or the last",
        lambda found: found.ours == "true" and found.theirs.removesuffix("_in_data_collection") in ("first", "last"),
    ),
    Difference(
        r"source\.txId",
        "the snapshot takes no transaction id from the server",
        lambda found: _is_snapshot(found) and found.ours is None,
    ),
    Difference(
        r"transaction\.id",
        "one id for all changes of a transaction; Debezium's has the position of each change",
        _have_equal_xid,
    ),
    Difference("before", "the replica identity, as documented; Debezium's connector has null", _is_key_of_update),
    Difference(r"before\..*", "the replica identity alone; Debezium adds nulls and invented values", _is_key_of_delete),
    Difference(
        r"key\..*|headers",
        "the columns of the identity's index, since PostgreSQL sends no others; Debezium invents the primary key",
        lambda found: list(found.our_event.key or ()) == ["email"],
    ),
    Difference(
        "key",
        "a unique index is no key; Debezium uses it as one",
        lambda found: found.our_event.table == "unique_only" and found.ours is None,
    ),
    Difference(
        r"after\.b",
        "PostgreSQL does not replicate generated columns; Debezium has them in the snapshot alone",
        lambda found: found.our_event.table == "computed" and _is_snapshot(found) and found.ours == _MISSING,
    ),
    Difference(
        _columns("extra"),
        "null stays null; Kafka Connect's JsonConverter replaces it by the default of the column",
        lambda found: (found.theirs, found.ours) == ("1.5", None),
    ),
    # --- values
    Difference(_columns("negative_scale"), "Debezium adds two thousand zeros", lambda found: found.ours == "12300"),
    Difference(
        _columns("day_before_christ", "day_of_switch"),
        "the calendar of PostgreSQL; in the snapshot, Debezium has that of Java, and so another day than in changes",
        _is_snapshot,
    ),
    Difference(
        _columns("day_infinite"),
        "one value for infinity; Debezium has one in the snapshot and another in changes",
        lambda found: found.ours == 2**31 - 1,
    ),
    Difference(
        _columns("moment_infinite"),
        "the documented value; Debezium's connector has the largest number",
        lambda found: (found.theirs, found.ours) == (2**63 - 1, 9223372036825200000),
    ),
    Difference(
        _columns("moment_farthest"),
        "Debezium's number has wrapped around",
        lambda found: (found.ours - found.theirs) % 2**64 == 0 or found.theirs < 0,
    ),
    Difference(
        _columns("bits_with_zeros"),
        "as many bytes as the column has, as documented; Debezium leaves out those that are zero",
        lambda found: (found.theirs, found.ours) == ("AQ==", "AQA="),
    ),
    Difference(_columns("named"), "Debezium loses names in changes", lambda found: found.theirs is None),
    Difference(
        _columns("clocks"), "Debezium loses the microseconds in arrays", lambda found: found.theirs[0] % 1000 == 0
    ),
    Difference(_columns("rows"), "Debezium loses the elements of arrays of arrays", _is_array_of_arrays),
    Difference(
        _columns("all_bits"), "Debezium has null", lambda found: found.ours == ["FQ=="] and found.theirs is None
    ),
    Difference(
        _columns("lexeme_query", "log_position", "twosome", "spans"),
        "the text of the value; Debezium leaves out columns of unknown types",
        _is_left_out,
    ),
    Difference(
        _columns("area", "round_area"),
        "the text of the value, which PostgreSQL reads again; Debezium has structs",
        lambda found: isinstance(found.theirs, dict) and isinstance(found.ours, str),
    ),
    Difference(
        _columns("flags"),
        "a placeholder; Debezium has null, which could be the value",
        lambda found: found.ours == [UNAVAILABLE] and found.theirs is None,
    ),
)


def compare(theirs: Event, ours: Event) -> Iterator[Mismatch]:
    """Yield the fields in which two records differ."""
    for path, their_value, our_value in _differing("", theirs.fields(), ours.fields()):
        yield Mismatch(path, their_value, our_value, theirs, ours)


def find_difference(found: Mismatch, differences: Sequence[Difference] = DIFFERENCES) -> Difference | None:
    """Return why a field differs; None if it should not."""
    return next((each for each in differences if each.explains(found)), None)


def _differing(path: str, theirs: JSON, ours: JSON) -> Iterator[tuple[str, JSON, JSON]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            below = f"{path}.{name}" if path else name
            yield from _differing(below, theirs.get(name, _MISSING), ours.get(name, _MISSING))
        shared = [[name for name in each if name in theirs and name in ours] for each in (theirs, ours)]
        if shared[0] != shared[1]:
            yield f"{path}, in their order", shared[0], shared[1]
    elif theirs != ours or isinstance(theirs, bool) is not isinstance(ours, bool):
        yield path, theirs, ours
