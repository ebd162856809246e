"""The positions of a query: a place in the write-ahead log, and how far the snapshot has come. Pure.

A query with a snapshot first reads the rows of its tables in chunks. All that time its place in the log is where the
slot began. The position behind a batch of chunks names them, because they are planned once and must be the same when
the batch is repeated. The positions of the stream have no chunks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tailrace.spark.connector.postgres_changes.table_form import QualifiedName

Key = tuple[str, ...]
"""The values of a primary key in their text form."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of a table whose key is greater than `after`, up to and with `upto`; None is the end of the table."""

    table: QualifiedName
    after: Key | None = None
    upto: Key | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A position. `chunks` are those of the batch that ends here; None if it belongs to the stream."""

    lsn: int
    planned_us: int = 0
    """When the batch that ends here was planned, which is when its changes are said to be processed."""
    chunks: tuple[Chunk, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark keeps it."""
        found: dict[str, Any] = {"lsn": format_lsn(self.lsn), "planned_us": self.planned_us}
        if self.chunks is not None:
            found["chunks"] = [[*chunk.table, _listed(chunk.after), _listed(chunk.upto)] for chunk in self.chunks]
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return a position that `to_json` wrote."""
        chunks = found.get("chunks")
        return cls(
            parse_lsn(found["lsn"]),
            int(found.get("planned_us", 0)),
            None
            if chunks is None
            else tuple(Chunk((schema, table), _key(after), _key(upto)) for schema, table, after, upto in chunks),
        )


def parse_lsn(text: str) -> int:
    """Return the number of a position in the log such as 0/16B3748; raises `ValueError`."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not a position in the write-ahead log")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return a position in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def plan_chunks(
    done: Sequence[Chunk],
    tables: Sequence[QualifiedName],
    count_max: int,
    find_end: Callable[[QualifiedName, Key | None], Key | None],
) -> tuple[Chunk, ...]:
    """Return the next chunks behind those that are done; none if the snapshot is complete.

    `find_end` returns the last key of a chunk of a table behind a key; None if the chunk is the last one.
    """
    table, after = _next_start(done, tables)
    chunks: list[Chunk] = []
    while table is not None and len(chunks) < count_max:
        upto = find_end(table, after)
        chunks.append(Chunk(table, after, upto))
        table, after = _next_start(chunks, tables)
    return tuple(chunks)


def _next_start(done: Sequence[Chunk], tables: Sequence[QualifiedName]) -> tuple[QualifiedName | None, Key | None]:
    if not done:
        return (tables[0], None) if tables else (None, None)
    last = done[-1]
    if last.upto is not None:
        return last.table, last.upto
    index = tables.index(last.table) + 1
    return (tables[index], None) if index < len(tables) else (None, None)


def _listed(key: Key | None) -> list[str] | None:
    return None if key is None else list(key)


def _key(found: Sequence[str] | None) -> Key | None:
    return None if found is None else tuple(found)
