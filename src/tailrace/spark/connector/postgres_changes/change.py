"""The changes of whole transactions, from the messages of pgoutput. Pure.

A batch is a range of positions in the write-ahead log. A transaction belongs to the range in which its commit record
begins, so each belongs to one batch, whatever the batches of another run were. PostgreSQL sends transactions in the
order of their commits, and the relations before the first changes that use them in each session.

As Debezium does, an update that changes the key is a delete of the old key and an insert with the new one, so that
records of both keys are right.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.spark.connector.postgres_changes.column_type import Types
from tailrace.spark.connector.postgres_changes.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    MalformedMessage,
    Message,
    Origin,
    Relation,
    Truncate,
    Update,
    decode,
)
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName, TableForm, form_of

CREATE, UPDATE, DELETE, READ, TRUNCATE = "c", "u", "d", "r", "t"
"""The operations, as Debezium names them."""


class Transaction(NamedTuple):
    """What all changes of a transaction have in common. `previous_lsn` is where the one before it ended.

    A transaction that was replicated from another server has the name of this origin, and its position there.
    """

    xid: int
    commit_lsn: int
    time_us: int
    previous_lsn: int
    origin: str | None = None
    origin_lsn: int | None = None


class Change(NamedTuple):
    """One change of a row, or of a whole table. Rows and keys are JSON."""

    op: str
    table: QualifiedName
    key: str | None
    before: str | None
    after: str | None
    lsn: int
    transaction: Transaction | None = None
    order: int = 0
    """The number of the change in its transaction, from 1."""
    table_order: int = 0
    """The number of the change among those of its table in the transaction, from 1."""
    other_key: str | None = None
    """The new key, of a delete that is half of a changed key; the old key, of an insert that is the other half."""


@dataclass(frozen=True, slots=True)
class LsnRange:
    """The transactions whose commit record begins at `start` or later, and before `end`."""

    start: int
    end: int

    def __contains__(self, commit_lsn: int) -> bool:
        return self.start <= commit_lsn < self.end


@dataclass(slots=True)
class ChangeReader:
    """Reads the changes of one batch."""

    wanted: LsnRange
    keys: Mapping[QualifiedName, Sequence[str]]
    tables: frozenset[QualifiedName] | None = None
    """The tables whose changes are wanted; None for all of the publication."""
    types: Types = field(default_factory=dict)
    _forms: dict[int, TableForm] = field(default_factory=dict)
    _transaction: Transaction | None = None
    _previous_lsn: int = 0
    _counts: Counter[QualifiedName] = field(default_factory=Counter)
    _order: int = 0

    def read(self, messages: Iterable[tuple[int, bytes]]) -> Iterator[Change]:
        """Yield the changes of messages, each with its position; raises `MalformedMessage`."""
        self._previous_lsn = self.wanted.start
        for lsn, data in messages:
            message = decode(data)
            if isinstance(message, Begin):
                if message.commit_lsn >= self.wanted.end:
                    return
                self._begin(message)
            elif isinstance(message, Commit):
                self._previous_lsn = max(self._previous_lsn, message.end_lsn)
                self._transaction = None
            elif isinstance(message, Relation):
                self._forms[message.oid] = form_of(message, self.keys, self.types)
            elif self._transaction is not None and isinstance(message, Origin):
                self._transaction = self._transaction._replace(origin=message.name, origin_lsn=message.commit_lsn)
            elif self._transaction is not None:
                yield from self._count(self._changes(message, lsn), self._transaction)
        if self._transaction is not None:
            raise MalformedMessage(f"PostgreSQL sent transaction {self._transaction.xid} without its end")

    def _begin(self, message: Begin) -> None:
        is_wanted = message.commit_lsn in self.wanted
        self._transaction = (
            Transaction(message.xid, message.commit_lsn, message.commit_time_us, self._previous_lsn)
            if is_wanted
            else None
        )
        self._counts.clear()
        self._order = 0

    def _count(self, changes: Iterable[Change], transaction: Transaction) -> Iterator[Change]:
        for change in changes:
            if self.tables is None or change.table in self.tables:
                self._order += 1
                self._counts[change.table] += 1
                yield change._replace(
                    transaction=transaction, order=self._order, table_order=self._counts[change.table]
                )

    def _changes(self, message: Message, lsn: int) -> Iterator[Change]:
        if isinstance(message, Insert):
            form = self._form(message.relation_oid)
            yield Change(CREATE, form.name, form.key(message.new), None, form.row(message.new), lsn)
        elif isinstance(message, Update):
            yield from _update(self._form(message.relation_oid), message, lsn)
        elif isinstance(message, Delete):
            form = self._form(message.relation_oid)
            before = form.identity(message.old) if message.is_old_key else form.row(message.old)
            yield Change(DELETE, form.name, form.key(message.old), before, None, lsn)
        elif isinstance(message, Truncate):
            for oid in message.relation_oids:
                yield Change(TRUNCATE, self._form(oid).name, None, None, None, lsn)

    def _form(self, relation_oid: int) -> TableForm:
        form = self._forms.get(relation_oid)
        if form is None:
            raise MalformedMessage(f"PostgreSQL sent a change of relation {relation_oid} before its columns")
        return form


def _update(form: TableForm, message: Update, lsn: int) -> Iterator[Change]:
    new = form.complete(message.new, message.old)
    key = form.key(new)
    # Often the key is all that is known of the old row, and it is the new one unless PostgreSQL has sent another.
    old = new if message.old is None else message.old
    old_key = form.key(old)
    before = form.identity(old) if message.old is None or message.is_old_key else form.row(old)
    if old_key == key:
        yield Change(UPDATE, form.name, key, before, form.row(new), lsn)
        return
    yield Change(DELETE, form.name, old_key, before, None, lsn, other_key=key)
    yield Change(CREATE, form.name, key, None, form.row(new), lsn, other_key=old_key)
