"""The messages of PostgreSQL's logical decoding plug-in pgoutput, protocol version 1. Pure.

PostgreSQL's manual has their layout in the chapter "Logical Replication Message Formats". Version 1 sends whole
transactions after their commit, so the messages that stream transactions in progress (version 2 and later) do not
occur, and are errors here.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tailrace.spark.error import ConnectorError


class MalformedMessage(ConnectorError):
    """A message is not one of pgoutput, or is damaged."""


class Unchanged(Enum):
    """The marker of a value that PostgreSQL stores out of line (TOAST) and leaves out because it has not changed."""

    TOAST = "unchanged"


UNCHANGED: Final = Unchanged.TOAST

Value = str | bytes | None | Unchanged
"""A value in PostgreSQL's text form or its binary form; None is a null."""
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a transaction. `commit_lsn` is the position of its commit record."""

    commit_lsn: int
    commit_time_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction. `end_lsn` is the position behind its commit record."""

    commit_lsn: int
    end_lsn: int
    commit_time_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The server from which a transaction was replicated to this one."""

    commit_lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation. `modifier` is its length or precision in PostgreSQL's encoding; -1 is none."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns of a table as they are for the changes that follow, until the next message about the table."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    """d for the primary key, i for an index, f for all columns, n for none."""
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """A type that is not built in."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relation_oid: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row. The old values are those of the key if it has changed, or all with REPLICA IDENTITY FULL."""

    relation_oid: int
    old: Row | None
    is_old_key: bool
    new: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted row: its key, or all its values with REPLICA IDENTITY FULL."""

    relation_oid: int
    old: Row
    is_old_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were emptied by one statement."""

    relation_oids: tuple[int, ...]
    is_cascade: bool
    is_restarting_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """A message of pg_logical_emit_message."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage

_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts time from the beginning of the year 2000."""
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_UINT64 = struct.Struct(">Q")
_UINT32 = struct.Struct(">I")
_UINT16 = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_CASCADE, _RESTART_IDENTITY = 1, 2
_NULL, _TEXT, _BINARY, _UNCHANGED = b"n"[0], b"t"[0], b"b"[0], b"u"[0]
_NEW, _KEY, _OLD = b"N"[0], b"K"[0], b"O"[0]


class _Cursor:
    """The unread part of one message."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def fields(self, layout: struct.Struct) -> Sequence[int]:
        found: Sequence[int] = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return found

    def number(self, layout: struct.Struct) -> int:
        return self.fields(layout)[0]

    def byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def text(self) -> str:
        end = self._data.find(0, self._at)
        if end < 0:
            raise IndexError("a name is cut off")
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def bytes(self) -> bytes:
        size = self.number(_UINT32)
        end = self._at + size
        if end > len(self._data):
            raise IndexError(f"a value of {size} bytes is cut off")
        found = self._data[self._at : end]
        self._at = end
        return found

    def row(self) -> Row:
        values: list[Value] = []
        for _ in range(self.number(_UINT16)):
            kind = self.byte()
            if kind == _TEXT:
                values.append(self.bytes().decode())
            elif kind == _NULL:
                values.append(None)
            elif kind == _UNCHANGED:
                values.append(UNCHANGED)
            elif kind == _BINARY:
                values.append(self.bytes())
            else:
                raise ValueError(f"a value has the unknown kind {chr(kind)!r}")
        return tuple(values)

    def require_end(self) -> None:
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes too many")


def decode(data: bytes) -> Message:
    """Decode one message; raises `MalformedMessage`."""
    kind = data[:1]
    decoder = _DECODERS.get(kind)
    if decoder is None:
        what = f"of the unknown kind {kind.decode('ascii', 'backslashreplace')!r}" if kind else "that is empty"
        raise MalformedMessage(f"PostgreSQL sent a message of pgoutput {what} ({len(data)} bytes)")
    cursor = _Cursor(data)
    try:
        found = decoder(cursor)
        cursor.require_end()
    except (struct.error, IndexError, ValueError) as error:
        reason = "it is cut off" if isinstance(error, struct.error | IndexError) else str(error)
        name = decoder.__name__.removeprefix("_")
        raise MalformedMessage(f"PostgreSQL sent a damaged {name} message ({len(data)} bytes): {reason}") from None
    return found


def _begin(cursor: _Cursor) -> Begin:
    commit_lsn, time_us, xid = cursor.fields(_BEGIN)
    return Begin(commit_lsn, time_us + _EPOCH_US, xid)


def _commit(cursor: _Cursor) -> Commit:
    _, commit_lsn, end_lsn, time_us = cursor.fields(_COMMIT)
    return Commit(commit_lsn, end_lsn, time_us + _EPOCH_US)


def _origin(cursor: _Cursor) -> Origin:
    return Origin(cursor.number(_UINT64), cursor.text())


def _relation(cursor: _Cursor) -> Relation:
    oid = cursor.number(_UINT32)
    schema, table = cursor.text(), cursor.text()
    identity = chr(cursor.byte())
    columns = tuple(_column(cursor) for _ in range(cursor.number(_UINT16)))
    return Relation(oid, schema or "pg_catalog", table, identity, columns)


def _column(cursor: _Cursor) -> Column:
    is_key = bool(cursor.byte() & 1)
    name = cursor.text()
    type_oid, modifier = cursor.fields(_COLUMN)
    return Column(name, type_oid, modifier, is_key)


def _type(cursor: _Cursor) -> Type:
    return Type(cursor.number(_UINT32), cursor.text() or "pg_catalog", cursor.text())


def _insert(cursor: _Cursor) -> Insert:
    oid = cursor.number(_UINT32)
    _require_kind(cursor.byte(), _NEW)
    return Insert(oid, cursor.row())


def _update(cursor: _Cursor) -> Update:
    oid, kind = cursor.number(_UINT32), cursor.byte()
    old = None
    is_key = kind == _KEY
    if kind in (_KEY, _OLD):
        old, kind = cursor.row(), cursor.byte()
    _require_kind(kind, _NEW)
    return Update(oid, old, is_key, cursor.row())


def _delete(cursor: _Cursor) -> Delete:
    oid, kind = cursor.number(_UINT32), cursor.byte()
    _require_kind(kind, _KEY, _OLD)
    return Delete(oid, cursor.row(), kind == _KEY)


def _truncate(cursor: _Cursor) -> Truncate:
    count, flags = cursor.number(_UINT32), cursor.byte()
    oids = tuple(cursor.number(_UINT32) for _ in range(count))
    return Truncate(oids, bool(flags & _CASCADE), bool(flags & _RESTART_IDENTITY))


def _message(cursor: _Cursor) -> LogicalMessage:
    flags, lsn = cursor.byte(), cursor.number(_UINT64)
    return LogicalMessage(bool(flags & 1), lsn, cursor.text(), cursor.bytes())


def _require_kind(kind: int, *allowed: int) -> None:
    if kind not in allowed:
        raise ValueError(f"a row has the unknown kind {chr(kind)!r}")


_DECODERS: dict[bytes, Callable[[_Cursor], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _message,
}
