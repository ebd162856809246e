"""`matrix.json`: the clients, the versions that were tested, and what of the workload each covers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients import workload
from tests.clients.workload import Report

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "matrix.json").read_text())


@dataclass(frozen=True)
class Entry:
    """One client's row."""

    client: str
    version: str
    covers: frozenset[str]
    needs_groups: frozenset[str]
    null_headers: bool

    def expected(self, phase: str, *, in_group: bool = False, null_headers: bool | None = None) -> Report:
        """The report that this client must give for a phase, in a consumer group or without one."""
        covered = self.covers if in_group else self.covers - self.needs_groups
        null_headers = self.null_headers if null_headers is None else null_headers
        full = workload.expected_report(phase, null_headers=null_headers)
        # The count belongs to the digest: whoever reads the records has both.
        step_of = {name: f"{phase}.{'digest' if name == 'count' else name}" for name in full}
        fields = {name: value for name, value in full.items() if step_of[name] in covered}
        return {"version": self.version, **fields}


def entry(client: str) -> Entry:
    """The row of a client."""
    (row,) = (row for row in DATA["clients"] if row["client"] == client)
    return Entry(
        client=client,
        version=row["version"],
        covers=frozenset(row["covers"]),
        needs_groups=frozenset(row.get("needs_groups", ())),
        null_headers=row["null_headers"],
    )
