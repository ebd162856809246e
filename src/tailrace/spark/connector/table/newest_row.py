"""The newest row of each key, by column. Pure.

Rows are only added: a row that has been replaced or deleted stays in the columns, and is left out when they are read,
until half of the rows are of this kind. So a change costs no more than the rows that it has.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

_CHUNKS_MAX = 64
"""Each change adds a chunk to the columns, and reading many small ones is slow."""


class NewestRows:
    """The rows of a table with these columns."""

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self._rows = columns.empty_table()
        self._places: dict[bytes, int] = {}
        self._dead: list[int] = []
        self._alive: Any = None

    def __len__(self) -> int:
        return len(self._places)

    def change(self, changes: Mapping[bytes, Mapping[str, Any] | None]) -> None:
        """Replace the rows of some keys; None deletes the row of a key."""
        if not changes:
            return
        for key in changes:
            place = self._places.pop(key, None)
            if place is not None:
                self._dead.append(place)
        new = {key: row for key, row in changes.items() if row is not None}
        if new:
            first = self._rows.num_rows
            added = pa.Table.from_pylist([*new.values()], schema=self._columns)
            self._rows = pa.concat_tables([self._rows, added])
            self._places.update(zip(new, range(first, first + len(new)), strict=True))
        self._alive = None
        if 2 * len(self._dead) > self._rows.num_rows or self._rows.column(0).num_chunks > _CHUNKS_MAX:
            self._compact()

    def table(self) -> Any:
        """Return the rows, as a `pyarrow.Table`."""
        if self._alive is None:
            mask = np.ones(self._rows.num_rows, dtype=bool)
            mask[self._dead] = False
            self._alive = self._rows.filter(pa.array(mask)) if self._dead else self._rows
        return self._alive

    def _compact(self) -> None:
        self._rows = self.table().combine_chunks()
        ordered = sorted(self._places.items(), key=itemgetter(1))
        self._places = {key: place for place, (key, _) in enumerate(ordered)}
        self._dead, self._alive = [], None
