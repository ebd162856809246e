"""The record of how a flow's slot began, in a file beside its checkpoint.

Spark logs the end of each batch, but not the start of the first one. So the position at which the slot was created, and
the snapshot of that moment, are written down before the query starts. A record that says `creating` was written before
the slot: if it is found at the next start, the flow has crashed in between, and the slot, if there is one, is its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tailrace.spark.connector.durable import write_durably
from tailrace.spark.connector.postgres_changes.position import Position, format_lsn, parse_lsn
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName
from tailrace.spark.error import PipelineError

_PREFIX = "postgres_changes_"


@dataclass(frozen=True, slots=True)
class StartRecord:
    """How a slot began. A record without an `lsn` belongs to a slot that is being created."""

    lsn: int | None = None
    base: str | None = None
    """The snapshot at the begin of the slot; None if the flow reads no snapshot."""
    created_us: int = 0
    tables: Mapping[QualifiedName, str] = field(default_factory=dict)
    """The tables of the snapshot, and the file that held the rows of each before the slot was created."""

    @property
    def position(self) -> Position:
        """The start of a query without a checkpoint."""
        return Position(self.lsn or 0, self.created_us, None if self.base is None else ())

    def to_json(self) -> dict[str, Any]:
        """Return what the file holds."""
        if self.lsn is None:
            return {"creating": True}
        return {
            "lsn": format_lsn(self.lsn),
            "base": self.base,
            "created_us": self.created_us,
            "tables": [[*name, file] for name, file in self.tables.items()],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return a record that `to_json` wrote; raises `KeyError`, `TypeError` or `ValueError` for any other."""
        if found.get("creating"):
            return cls()
        tables = {(schema, table): str(file) for schema, table, file in found["tables"]}
        return cls(parse_lsn(found["lsn"]), found["base"], int(found["created_us"]), tables)


def record_path(checkpoint: Path, slot: str) -> Path:
    """Return the file of a slot."""
    return checkpoint / f"{_PREFIX}{slot}.json"


def recorded_slots(checkpoint: Path) -> list[str]:
    """Return the names of the slots that a flow has used."""
    return sorted(path.stem.removeprefix(_PREFIX) for path in checkpoint.glob(f"{_PREFIX}*.json"))


def read_record(path: Path) -> StartRecord | None:
    """Return the record; None if there is none. Raises `PipelineError` for a damaged file."""
    try:
        return StartRecord.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PipelineError(f"the checkpoint file {path} cannot be read; reset the flow") from None


def write_record(path: Path, record: StartRecord) -> None:
    """Write the record, so that it is on the disk when this returns."""
    write_durably(path, json.dumps(record.to_json()))
