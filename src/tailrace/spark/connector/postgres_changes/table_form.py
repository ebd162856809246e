"""The JSON form of a table's rows and keys, for one version of its columns. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring

from tailrace.spark.connector.postgres_changes.column_type import Types, replaced
from tailrace.spark.connector.postgres_changes.pgoutput import (
    UNCHANGED,
    Column,
    MalformedMessage,
    Relation,
    Row,
    Value,
)
from tailrace.spark.connector.postgres_changes.value import Convert, converter, unavailable

QualifiedName = tuple[str, str]
"""The schema and the name of a table."""

_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class _Field:
    label: str
    """The name as JSON, with the colon."""
    convert: Convert
    unavailable: str

    def encode(self, value: Value) -> str:
        if value is None:
            return f"{self.label}null"
        if value is UNCHANGED:
            return f"{self.label}{self.unavailable}"
        try:
            return f"{self.label}{self.convert(value)}"  # type: ignore[arg-type] # binary values were not asked for
        except (ValueError, TypeError, AttributeError):
            raise MalformedMessage(f"column {self.label[:-1]} has the unreadable value {value!r:.60}") from None


class TableForm:
    """Encodes rows and keys of a table as JSON objects."""

    __slots__ = ("_fields", "_key", "name")

    def __init__(self, name: QualifiedName, columns: Sequence[Column], key: Sequence[int]) -> None:
        self.name = name
        self._fields = [
            _Field(
                f"{encode_basestring(column.name)}:",
                converter(column.type_oid, column.modifier),
                unavailable(column.type_oid),
            )
            for column in columns
        ]
        self._key = tuple(key)

    def row(self, values: Sequence[Value]) -> str:
        """Return a row as a JSON object."""
        if len(values) != len(self._fields):
            table, count = ".".join(self.name), len(self._fields)
            raise MalformedMessage(f"PostgreSQL sent {len(values)} values for the {count} columns of table {table}")
        fields = zip(self._fields, values, strict=True)
        return f"{{{','.join([field.encode(value) for field, value in fields])}}}"

    def key(self, values: Sequence[Value]) -> str | None:
        """Return the key of a row as a JSON object; None if the table has no key, or the values lack it."""
        if not self._key or len(values) != len(self._fields) or any(values[index] is UNCHANGED for index in self._key):
            return None
        return f"{{{','.join([self._fields[index].encode(values[index]) for index in self._key])}}}"

    def identity(self, values: Sequence[Value]) -> str | None:
        """Return the same values as a part of the row, in the order of its columns."""
        if self.key(values) is None:
            return None
        return f"{{{','.join([self._fields[index].encode(values[index]) for index in sorted(self._key)])}}}"

    def complete(self, new: Row, old: Row | None) -> Row:
        """Return a new row in which values that have not changed are those of the old row, where that is known."""
        if old is None or UNCHANGED not in new:
            return new
        return tuple(
            before if value is UNCHANGED and before is not None else value
            for value, before in zip(new, old, strict=False)
        )


def topic_name(prefix: str, table: QualifiedName) -> str:
    """Return the topic of a table's records; as Debezium does, replaces characters that no topic can have."""
    return _NOT_IN_TOPICS.sub("_", f"{prefix}.{table[0]}.{table[1]}")


def form_of(relation: Relation, keys: Mapping[QualifiedName, Sequence[str]], types: Types) -> TableForm:
    """Return the form of a relation.

    The message about a relation marks the columns of its replica identity. These are the key, unless the identity is
    FULL and has all columns: the primary key is not in the message then. The order of the key's columns is that of its
    index, as it is in Debezium's keys, unless the table has got another key since the message.
    """
    name = (relation.schema, relation.table)
    places = {column.name: index for index, column in enumerate(relation.columns)}
    marked = {column.name for column in relation.columns if column.is_key}
    known = keys.get(name, ())
    if relation.replica_identity == "f":
        key = known if places.keys() >= set(known) else ()
    else:
        key = known if marked == set(known) else [column for column in places if column in marked]
    columns = [replaced(column, types) for column in relation.columns]
    return TableForm(name, columns, [places[column] for column in key])
