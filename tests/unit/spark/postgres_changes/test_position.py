"""Positions, the plan of chunks, and the decision about row versions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.connector.postgres_changes.position import Chunk, Key, Position, format_lsn, parse_lsn, plan_chunks
from tailrace.spark.connector.postgres_changes.row_version import DatabaseSnapshot, is_changed_since
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName

A, B = ("public", "a"), ("public", "b")


@given(st.integers(0, 2**64 - 1))
def test_positions_of_the_log_are_written_as_postgresql_does(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


def test_a_position_survives_a_checkpoint() -> None:
    assert format_lsn(0x16B3748 + (1 << 32)) == "1/16B3748"
    for position in (
        Position(5, 7),
        Position(5, 7, ()),
        Position(5, 7, (Chunk(A, None, ("1", "x")), Chunk(A, ("1", "x"), None))),
    ):
        assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


def test_chunks_cover_every_table_once() -> None:
    ends: dict[tuple[QualifiedName, Key | None], Key | None] = {
        (A, None): ("3",),
        (A, ("3",)): ("6",),
        (A, ("6",)): None,
        (B, None): None,
    }
    done: tuple[Chunk, ...] = ()
    batches = []
    while chunks := plan_chunks(done, [A, B], 2, lambda table, after: ends[table, after]):
        batches.append(chunks)
        done = chunks
    assert batches == [
        (Chunk(A, None, ("3",)), Chunk(A, ("3",), ("6",))),
        (Chunk(A, ("6",), None), Chunk(B, None, None)),
    ]
    assert plan_chunks((), [], 2, lambda table, after: None) == ()


@pytest.mark.parametrize(
    ("xmin", "expected"),
    [(2, False), (99, False), (100, True), (101, False), (104, True), (105, True), (110, True), (120, False)],
)
def test_a_version_is_newer_if_the_base_does_not_see_its_transaction(xmin: int, expected: bool) -> None:
    base = DatabaseSnapshot.parse("100:105:100,104")
    assert is_changed_since(base, DatabaseSnapshot.parse("112:120:112"), xmin) is expected


def test_nothing_is_certain_once_ids_of_transactions_are_used_again() -> None:
    base = DatabaseSnapshot.parse(f"{2**32 + 1}:{2**32 + 1}:")
    assert not is_changed_since(base, DatabaseSnapshot.parse(f"{2**32 + 9}:{2**32 + 9}:"), 5)


def test_a_snapshot_must_see_what_the_base_sees() -> None:
    """A transaction is decoded from the log a moment before other sessions see it, so a snapshot may lack it."""
    base = DatabaseSnapshot.parse("100:105:100")
    assert DatabaseSnapshot.parse("100:106:100").contains(base)
    assert not DatabaseSnapshot.parse("100:106:100,103").contains(base)
    assert not DatabaseSnapshot.parse("100:104:100").contains(base)
