"""The rows that a stream over a table has read, told by the transactions that wrote them.

A cursor such as `updated_at` alone loses rows: a transaction that sets it at 12:00 may commit at 12:05, when the stream
has passed 12:04. So a batch takes the rows whose transactions have *finished* since the last batch, whatever their
cursor says. The cursor only bounds the part of the table that is looked at.

- A position is a `Seen`: the transactions below `next_id`, except for those that were `open`. A row belongs to it if
  its system column `xmin`, the transaction that wrote this version of the row, does. A batch has the rows of the new
  position that are not in the old one, so each version of a row is in one batch.
- `pg_current_snapshot()` leaves out the ids of subtransactions, and rows that were written after a savepoint have these
  as `xmin`. `pg_visible_in_snapshot` would call them visible before they are. So the open ids are found by asking for
  the state of each id between the oldest open transaction and `next_id`. If these are too many, because a transaction
  has been open for very long, `next_id` is the oldest open one instead, and later rows wait for its end.
- The ids are found before the snapshot is taken in which the rows are read. A transaction that was finished by then is
  visible in it; one that finishes in between is open in the position, and its rows are in the next batch.
- `xmin` has 32 bits. It is extended by the epoch of the snapshot: a visible row is older than the snapshot's `xmax`. A
  row that is older than 2^32 transactions may be taken for a newer one; the bound of the cursor excludes such rows.
- VACUUM FREEZE keeps `xmin` since PostgreSQL 9.4; ids below 3 are of frozen rows of earlier versions. VACUUM FULL and
  CLUSTER keep it, too. An ALTER TABLE that rewrites the table does not: the rows within the bound come again.
- An updated row is a new version and comes again, with its newest values; versions between two batches are not seen,
  and neither are deletions. `postgres_changes` has them all.
- A batch that is read again after a restart cannot see the versions of its time: a row that was updated since is in
  the next batch. So that batch has the same bound of the cursor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

OPEN_RANGE_MAX = 100_000
"""So many ids are asked for one by one; it takes some tenths of a second."""
OPEN_IDS_MAX = 5_000
"""So many ids are kept in a position, which Spark writes for each batch."""

_FIND = """\
WITH now AS MATERIALIZED (SELECT pg_current_snapshot() AS s), bound AS MATERIALIZED (
    SELECT pg_snapshot_xmin(s)::text::bigint AS low, pg_snapshot_xmax(s)::text::bigint AS high FROM now)
SELECT low, high, ARRAY(
    SELECT id FROM generate_series(low, least(high, low + %(most)s) - 1) AS id
    WHERE high - low <= %(most)s AND pg_xact_status(id::text::xid8) = 'in progress' ORDER BY id)
FROM bound"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The transactions whose rows were read."""

    next_id: int = 0
    open: tuple[int, ...] = ()

    @classmethod
    def of(cls, position: Mapping[str, Any]) -> "Seen":
        """Return the transactions of a position in a checkpoint."""
        return cls(int(position["next_id"]), tuple(map(int, position["open"])))

    def condition(self, transaction_id: str) -> str:
        """Return the condition that a transaction is one of these."""
        if not self.open:
            return f"{transaction_id} < {self.next_id}"
        ids = ",".join(map(str, self.open))
        return f"({transaction_id} < {self.next_id} AND {transaction_id} <> ALL ('{{{ids}}}'::bigint[]))"


def find_seen(connection: "Connection[Any]") -> Seen:
    """Return the transactions that are finished now; call it before the snapshot is taken."""
    found = connection.execute(_FIND, {"most": OPEN_RANGE_MAX}).fetchone()
    assert found is not None  # noqa: S101 - a query without conditions has a row
    return choose(*found)


def choose(low: int, high: int, open_ids: Sequence[int]) -> Seen:
    """Return the position between the oldest open transaction and the next id, with the open ids of this range."""
    if high - low > OPEN_RANGE_MAX or len(open_ids) > OPEN_IDS_MAX:
        return Seen(low)
    return Seen(high, tuple(open_ids))


def new_rows(old: Seen, new: Seen, snapshot_next_id: int) -> str:
    """Return the condition for the rows between two positions, in a snapshot with this `xmax`."""
    row = _extended("xmin::text::bigint", snapshot_next_id)
    return new.condition(row) if old == Seen() else f"{new.condition(row)} AND NOT {old.condition(row)}"


def _extended(xmin: str, snapshot_next_id: int) -> str:
    """Return the expression for a transaction id of 64 bits; that of a visible row is below that of the snapshot."""
    epoch, low = snapshot_next_id >> 32 << 32, snapshot_next_id & 0xFFFFFFFF
    before = epoch - (1 << 32)
    return f"(CASE WHEN {xmin} < 3 THEN 0 WHEN {xmin} <= {low} THEN {epoch} + {xmin} ELSE {before} + {xmin} END)"
