"""The table of states, cell by cell."""

import pytest
from tests.unit.machines.transaction.transaction_script import BEGUN, START_MS

from tailrace.base.invariant import InvariantError
from tailrace.machines.transaction.state import STORED_STATES, TRANSITIONS, TransactionState, may_follow

# Kafka's table, without the states that it has in memory only: who may follow whom.
GRID = """
                 EMPTY ONGOING PREPARE_COMMIT PREPARE_ABORT COMPLETE_COMMIT COMPLETE_ABORT DEAD PREPARE_EPOCH_FENCE
EMPTY            yes   yes     -              yes           -               -              yes  -
ONGOING          -     yes     yes            yes           -               -              -    -
PREPARE_COMMIT   -     -       -              -             yes             -              -    -
PREPARE_ABORT    -     -       -              -             -               yes            -    -
COMPLETE_COMMIT  yes   yes     -              yes           -               -              yes  -
COMPLETE_ABORT   yes   yes     -              yes           -               -              yes  -
DEAD             -     -       -              -             -               -              -    -
PREPARE_EPOCH_FENCE  - -       -              -             -               -              -    -
"""


def cells() -> list[tuple[TransactionState, TransactionState, bool]]:
    head, *rows = [line.split() for line in GRID.strip().splitlines()]
    assert head == [state.name for state in TransactionState]
    return [
        (TransactionState[before], TransactionState[after], mark == "yes")
        for before, *marks in rows
        for after, mark in zip(head, marks, strict=True)
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"), cells(), ids=[f"{before.name}-{after.name}" for before, after, _ in cells()]
)
def test_a_cell(before: TransactionState, after: TransactionState, expected: bool) -> None:
    assert may_follow(before, after) is expected


def test_what_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(InvariantError):
        BEGUN.become(TransactionState.COMPLETE_COMMIT, START_MS)


def test_states_have_kafkas_numbers_and_names() -> None:
    assert {state.title: int(state) for state in TransactionState} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
    assert set(TRANSITIONS) == STORED_STATES
