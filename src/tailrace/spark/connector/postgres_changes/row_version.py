"""The decision whether a row was changed after the slot was created. Pure.

Theory of operation. The slot and a snapshot of the database are created together, so that the snapshot sees exactly the
transactions that are before the first change of the slot: call it the base. The rows of the tables are read later, in
chunks, each in a snapshot of its own. A row whose version was written by a transaction that the base sees has not
changed since the slot was created, and is part of the output. Any other version comes with the changes of the slot, and
the row is left out of the snapshot.

So the output is the state at the base, followed by all later changes in their order, though no transaction is held
open for it, and a chunk may be read again after a crash. A row is left out only if that is certain. Rows that are in
doubt are kept: they are at worst newer than the changes that follow, and equal again after the last of these.
"""

from dataclasses import dataclass
from typing import Self

_XID_COUNT = 1 << 32


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """The transactions that a snapshot sees: those before `xmax` that were not running, or not known to have ended."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return a snapshot of its text, such as 756:760:757,758; raises `ValueError`."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, xid: int) -> bool:
        """Return whether the effects of a transaction are visible."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)

    def contains(self, base: "DatabaseSnapshot") -> bool:
        """Return whether all that a base sees is visible.

        A transaction is in the log, and visible to logical decoding, a moment before other sessions see it. It may
        have to wait for a synchronous standby in between.
        """
        return base.xmax <= self.xmax and not any(base.sees(xid) for xid in self.running)


def is_changed_since(base: DatabaseSnapshot, now: DatabaseSnapshot, row_xmin: int) -> bool:
    """Return whether a version with this xmin was certainly written by a transaction that the base does not see.

    `now` is a snapshot that sees the version. A row's xmin has 32 bits. Once a server has used more ids than that, an
    old version may have the xmin of a new one, and nothing is certain.
    """
    if now.xmax >= _XID_COUNT:
        return False
    return base.xmin <= row_xmin < now.xmax and not base.sees(row_xmin)
