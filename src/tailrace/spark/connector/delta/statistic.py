"""The statistics of a data file, by which readers leave out files. Pure."""

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TEXT_LENGTH_MAX = 32
"""The bounds of longer texts are left out: a bound that is cut off must still be one."""


class FileStatistics:
    """Counts rows and nulls, and finds the least and the greatest values of integers, dates and short texts."""

    def __init__(self) -> None:
        self.row_count = 0
        self._nulls: dict[str, int] = {}
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}
        self._unbounded: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Count rows."""
        self.row_count += rows.num_rows
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if pa.types.is_nested(column.type):
                continue
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            if name not in self._unbounded:
                self._bound(name, column)

    def _bound(self, name: str, column: pa.ChunkedArray) -> None:
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)):
            self._unbounded.add(name)
            return
        found = pc.min_max(column).as_py()
        least, greatest = found["min"], found["max"]
        if least is None:
            return
        if isinstance(least, str) and max(len(least), len(greatest)) > _TEXT_LENGTH_MAX:
            self._unbounded.add(name)
            self._least.pop(name, None)
            self._greatest.pop(name, None)
            return
        self._least[name] = min(least, self._least.get(name, least))
        self._greatest[name] = max(greatest, self._greatest.get(name, greatest))

    def to_json(self) -> str:
        """Return the statistics as the format has them."""
        return json.dumps(
            {
                "numRecords": self.row_count,
                "minValues": {name: _plain(value) for name, value in self._least.items()},
                "maxValues": {name: _plain(value) for name, value in self._greatest.items()},
                "nullCount": self._nulls,
            },
            separators=(",", ":"),
        )


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
