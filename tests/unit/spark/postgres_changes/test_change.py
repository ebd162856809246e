"""The changes of transactions, from messages."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.unit.spark.postgres_changes.test_pgoutput import encode

from tailrace.spark.connector.postgres_changes.change import Change, ChangeReader, LsnRange
from tailrace.spark.connector.postgres_changes.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    MalformedMessage,
    Message,
    Relation,
    Truncate,
    Update,
)
from tailrace.spark.connector.postgres_changes.table_form import topic_name

KEYED = Relation(1, "public", "a", "d", (Column("id", 23, -1, True), Column("t", 25, -1, False)))
FULL = Relation(1, "public", "a", "f", (Column("id", 23, -1, True), Column("t", 25, -1, True)))


def transaction(commit_lsn: int, *messages: Message) -> list[Message]:
    return [Begin(commit_lsn, 1000, 7), *messages, Commit(commit_lsn, commit_lsn + 10, 1000)]


def read(messages: Iterable[Message], start: int = 0, end: int = 10_000, table: str = "a") -> list[Change]:
    reader = ChangeReader(LsnRange(start, end), {("public", "a"): ("id",)}, frozenset({("public", table)}))
    return list(reader.read((index, encode(message)) for index, message in enumerate(messages)))


def shape(changes: list[Change]) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(change.op, change.key, change.before, change.after) for change in changes]


def test_a_transaction_belongs_to_the_range_in_which_its_commit_begins() -> None:
    messages = [KEYED, *(each for lsn in (10, 20, 30) for each in transaction(lsn, Insert(1, (str(lsn), "x"))))]
    assert [change.key for change in read(messages, 20, 30)] == ['{"id":20}']
    assert [change.key for change in read(messages, 11, 31)] == ['{"id":20}', '{"id":30}']


def test_changes_are_counted_in_their_transaction() -> None:
    found = read([KEYED, *transaction(10, Insert(1, ("1", "x")), Delete(1, ("1", None), True))], start=5)
    assert [(change.order, change.table_order) for change in found] == [(1, 1), (2, 2)]
    assert found[0].transaction is not None
    assert (found[0].transaction.previous_lsn, found[0].transaction.xid) == (5, 7)


def test_an_update_of_a_key_is_a_delete_and_an_insert() -> None:
    found = read([KEYED, *transaction(10, Update(1, ("1", None), True, ("2", "x")))])
    assert shape(found) == [
        ("d", '{"id":1}', '{"id":1}', None),
        ("c", '{"id":2}', None, '{"id":2,"t":"x"}'),
    ]
    assert [change.other_key for change in found] == ['{"id":2}', '{"id":1}']


def test_all_columns_as_replica_identity_give_the_old_row_and_the_unchanged_values() -> None:
    found = read(
        [FULL, *transaction(10, Update(1, ("1", "long"), False, ("1", UNCHANGED)), Delete(1, ("1", "x"), False))]
    )
    assert shape(found) == [
        ("u", '{"id":1}', '{"id":1,"t":"long"}', '{"id":1,"t":"long"}'),
        ("d", '{"id":1}', '{"id":1,"t":"x"}', None),
    ]


def test_an_unchanged_value_out_of_line_has_a_placeholder() -> None:
    found = read([KEYED, *transaction(10, Update(1, None, False, ("1", UNCHANGED)))])
    assert shape(found) == [("u", '{"id":1}', '{"id":1}', '{"id":1,"t":"__debezium_unavailable_value"}')]


def test_a_table_that_is_not_wanted_is_left_out() -> None:
    assert read([KEYED, *transaction(10, Insert(1, ("1", "x")), Truncate((1,), False, False))], table="b") == []


def test_later_columns_replace_earlier_ones() -> None:
    wider = Relation(1, "public", "a", "d", (*KEYED.columns, Column("n", 1700, -1, False)))
    found = read([*transaction(10, KEYED, Insert(1, ("1", "x")), wider, Insert(1, ("2", "y", "1.50")))])
    assert [change.after for change in found] == ['{"id":1,"t":"x"}', '{"id":2,"t":"y","n":"1.50"}']


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (transaction(10, Insert(1, ("1",))), "PostgreSQL sent a change of relation 1 before its columns"),
        (
            [KEYED, *transaction(10, Insert(1, ("1",)))],
            "PostgreSQL sent 1 values for the 2 columns of table public.a",
        ),
        ([KEYED, Begin(10, 0, 8)], "PostgreSQL sent transaction 8 without its end"),
        (
            [Relation(1, "s", "d", "d", (Column("day", 1082, -1, True),)), *transaction(10, Insert(1, ("no date",)))],
            "column \"day\" has the unreadable value 'no date'",
        ),
    ],
)
def test_a_stream_that_does_not_fit_together_is_one_error(messages: list[Message], expected: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read(messages)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [("orders", "shop.public.orders"), ("Odd name$é", "shop.public.Odd_name__"), ("a-b.c_d", "shop.public.a-b.c_d")],
)
def test_a_topic_has_no_character_that_kafka_refuses(table: str, expected: str) -> None:
    assert topic_name("shop", ("public", table)) == expected
