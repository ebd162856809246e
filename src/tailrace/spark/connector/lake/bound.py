"""The bounds of keys, by which files are left out that cannot have one of them. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Bounds: TypeAlias = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value by column. A column that is missing may have any value."""


def has_bounds(kind: pa.DataType) -> bool:
    """Return whether values of a type are compared here as the formats compare them."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


class KeyBounds:
    """The bounds of keys that are seen bit by bit."""

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[Any, Any]] = {}

    def add(self, keys: pa.Table) -> None:
        """Widen the bounds, so that they hold these keys."""
        for name, column in zip(keys.schema.names, keys.columns, strict=True):
            if has_bounds(column.type) and len(column) > column.null_count:
                found = pc.min_max(column).as_py()
                self._widen(name, found["min"], found["max"])

    def add_json(self, text: bytes) -> None:
        """Widen the bounds by those of another task."""
        for name, (least, greatest) in json.loads(text).items():
            self._widen(name, least, greatest)

    def _widen(self, name: str, least: Any, greatest: Any) -> None:
        low, high = self._bounds.get(name, (least, greatest))
        self._bounds[name] = (min(low, least), max(high, greatest))

    def to_json(self) -> bytes:
        """Return the bounds for the driver."""
        return json.dumps(self._bounds).encode()

    def may_have(self, bounds: Bounds | None) -> bool:
        """Return whether a file with these bounds may have one of the keys."""
        if bounds is None:
            return True
        for name, (least, greatest) in self._bounds.items():
            low, high = bounds.get(name, (least, greatest))
            if low > greatest or high < least:
                return False
        return True


def known_bounds(columns: Iterable[tuple[str, Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return the bounds of columns that have both."""
    return {name: (low, high) for name, low, high in columns if low is not None and high is not None}


def bounded_columns(columns: pa.Schema, names: Sequence[str]) -> list[str]:
    """Return the columns among some that can have bounds."""
    return [name for name in names if has_bounds(columns.field(name).type)]
