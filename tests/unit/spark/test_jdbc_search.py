"""The search for the first row that a database refuses, over rows that are only numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tailrace.spark.connector.jdbc_refusal import Refusal
from tailrace.spark.connector.jdbc_search import Found, first_refused

REFUSAL = Refusal("23505", "a duplicate")


class Table:
    """Refuses rows of some values, and a value that it has already. Spark sends only complete JDBC batches."""

    def __init__(self, values: list[int], *refused: int) -> None:
        self.values = values
        self.refused = {*refused}
        self.attempts: list[tuple[int, int, int]] = []

    def attempt(self, start: int, end: int, size: int) -> Refusal | None:
        assert (end - start) % size == 0, "the last JDBC batch is incomplete"
        self.attempts.append((start, end, size))
        rows = self.values[start:end]
        return REFUSAL if self.refused & {*rows} or len({*rows}) < len(rows) else None


@pytest.mark.parametrize("count", [1, 7, 10, 999, 1_000, 1_001, 23_456])
def test_any_row_is_found(count: int) -> None:
    for number in {0, count // 3, count // 2, count - 1}:
        table = Table([*range(count)], number)
        assert first_refused(count, table.attempt) == Found(number, REFUSAL)
        assert len(table.attempts) <= 20
        assert sum((end - start) // size for start, end, size in table.attempts) <= 80_000


def test_the_first_of_several_rows_is_found() -> None:
    table = Table([*range(5_000)], 4_321, 1_234, 3_000)
    assert first_refused(5_000, table.attempt) == Found(1_234, REFUSAL)


def test_the_second_row_of_a_key_is_found() -> None:
    """Each of the two would be taken alone."""
    values = [*range(3_000)]
    values[2_345] = 17
    assert first_refused(3_000, Table(values).attempt) == Found(2_345, REFUSAL)


def test_no_row_is_blamed_without_a_refusal() -> None:
    """The other row of the key is too far away, or another program has deleted it."""
    values = [*range(30_000)]
    values[25_000] = 17
    assert first_refused(30_000, Table(values).attempt) is None
    assert first_refused(2_000, Table([*range(2_000)]).attempt) is None
    assert first_refused(0, Table([]).attempt) is None
