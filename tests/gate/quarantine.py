"""The tests that are known to fail now and then: `tests/quarantine.txt`.

They run and are reported, and reject nothing. A line holds the test's id, the date on which it was put there and the
cause, separated by ` | `. The list is short and a line stays for two weeks at most (`test_quarantine.py`).
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "quarantine.txt"
ENTRIES_MAX = 10
DAYS_MAX = 14


@dataclass(frozen=True, slots=True)
class Entry:
    """A test that is known to be unsteady."""

    test_id: str
    since: date
    cause: str


def read(file: Path = FILE) -> list[Entry]:
    """Return the entries; raise ValueError with the line that is not one."""
    entries = []
    for line in file.read_text().splitlines() if file.exists() else ():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            test_id, since, cause = (part.strip() for part in line.split(" | ", 2))
            entry = Entry(test_id, date.fromisoformat(since), cause)
        except ValueError:
            raise ValueError(f"{file.name}: not `test id | YYYY-MM-DD | cause`: {line}") from None
        if not entry.cause:
            raise ValueError(f"{file.name}: no cause: {line}")
        entries.append(entry)
    return entries


def complaints(entries: list[Entry], today: date) -> list[str]:
    """Return what is wrong with a list of entries."""
    found = [f"{entry.test_id}: since {entry.since}" for entry in entries if (today - entry.since).days > DAYS_MAX]
    found += [f"{entry.test_id}: {entry.since} has not come yet" for entry in entries if entry.since > today]
    if len(entries) > ENTRIES_MAX:
        found.append(f"{len(entries)} entries, and {ENTRIES_MAX} are allowed")
    return found
