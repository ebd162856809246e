"""The place of a record, and the column by which a row of a flow keeps the place of its record. Pure.

The function of a flow does not see the column. A sink that gets it writes the other columns, and has it when it refuses
a row.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

ORIGIN = "__tailrace_origin"
"""The name of the column; its values are those of `RecordPlace.packed`, or null."""

_PACKED = re.compile(r"([A-Za-z0-9._-]+) ([0-9]+) ([0-9]+)")


class RecordPlace(NamedTuple):
    """The place of one record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"

    @property
    def packed(self) -> str:
        """The place as a text."""
        return " ".join(map(str, self))

    @classmethod
    def unpack(cls, text: str | bytes | None) -> "RecordPlace | None":
        """Return the place in a text; None if there is none."""
        plain = text.decode(errors="replace") if isinstance(text, bytes) else text
        found = _PACKED.fullmatch(plain or "")
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))


def split_origin(columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns to write, and those that hold the origin of a row: one or none."""
    return [name for name in columns if name != ORIGIN], [name for name in columns if name == ORIGIN]
