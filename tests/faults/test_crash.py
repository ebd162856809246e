"""A fault at a file-system call of a workload that has every operation.

For time's sake not every fault strikes every call here; `make crash` does that, and runs any
number of drawn workloads with drawn faults. A failure prints the command that shows it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest
from tests.faults.crash import FAULTS, Case, Failure, _Run, call_count, cases, run_case
from tests.faults.crash_script import COMPACTING, STANDARD, script

DRAWN_COUNT = 60


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Storage tells of every fault, of which there are thousands here."""
    logger = logging.getLogger("tailrace.storage")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


def test_the_standard_workload_has_every_operation() -> None:
    run = _Run(Case(0, "kill", 0))
    run.world.start()
    for step in [*STANDARD, *COMPACTING]:
        run.world.run(step)
    operations = {operation for operation, _ in run.fs.calls}
    wanted = {"write_at", "read_at", "create", "open", "truncate", "sync", "sync_directory", "rename", "remove"}
    assert wanted | {"write_file", "read_file", "make_directory", "remove_directory", "lock"} <= operations
    drawn = {step[0] for number in range(2, 40) for step in script(number)}
    assert {step[0] for step in [*STANDARD, *COMPACTING]} == drawn


@pytest.mark.parametrize("fault", ["kill", "power"])
def test_a_crash_at_any_call_breaks_no_promise(fault: str) -> None:
    for call in range(1 + FAULTS.index(fault), call_count(0) + 1, 2):
        run_case(Case(0, fault, call, 0, call))


@pytest.mark.parametrize("fault", ["kill", "power", "eio", "full"])
def test_a_fault_at_any_call_around_compactions_breaks_no_promise(fault: str) -> None:
    for call in range(1 + FAULTS.index(fault), call_count(1) + 1, 12):
        run_case(Case(1, fault, call, 0, call // 12))


@pytest.mark.parametrize("fault", ["eio", "enospc", "broken", "full"])
def test_an_error_at_any_call_leaves_a_log_that_works_or_a_folder_that_is_offline(fault: str) -> None:
    for call in range(1 + FAULTS.index(fault), call_count(0) + 1, 10):
        run_case(Case(0, fault, call, 0, call // 10))


def test_a_second_crash_while_recovering_breaks_no_promise_either() -> None:
    for number, call in enumerate(range(1, call_count(0) + 1, 12)):
        run_case(Case(0, ("kill", "power")[number % 2], call, 1 + number * 7 % 60, number))


def test_drawn_faults_in_drawn_workloads_break_no_promise() -> None:
    drawn = cases(Random(3), DRAWN_COUNT * 15, first_script=2)
    for case in drawn[::15]:
        run_case(case)


def test_a_case_is_the_same_every_time_and_can_be_written_down() -> None:
    case = Case(3, "power", 40, 7, 12)
    assert Case.parse(str(case)) == case
    assert run_case(case) == run_case(case)


def test_a_failure_tells_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.crash_world.check_consistent", lambda fs, log, found: 1 / 0)
    with pytest.raises(Failure, match=r"again: python -m tests\.faults\.crash --case 0/kill/200/0/0"):
        run_case(Case(0, "kill", 200))
