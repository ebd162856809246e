"""A real broker and real clients in a world where things go wrong; `make simulate` runs many more seeds."""

import asyncio
import logging

import pytest
from tests.unit.sim.admin_ablation import ABLATIONS, FOUND

from tailrace.runtime.append import Appender
from tailrace.sim import loop
from tailrace.sim.simulate import main, report
from tailrace.sim.simulation import Simulation

SEEDS = (3, 12, 31)
LONG_SEED = 2
FOR_S = 20.0
TOO_MUCH = "leader deletes too much"


@pytest.mark.parametrize("seed", [*SEEDS, pytest.param(LONG_SEED, marks=pytest.mark.slow)])
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    outcome = Simulation(seed, for_s=FOR_S).run()
    assert not outcome.problems, report(seed, outcome.notes, outcome.problems, FOR_S)
    assert "1 drain ok" in outcome.summary


def test_one_seed_is_one_story() -> None:
    one, other, another = (Simulation(seed, for_s=3.0).run() for seed in (5, 5, 6))
    assert (one.digest, one.notes) == (other.digest, other.notes)
    assert one.digest != another.digest


def test_the_limits_of_a_live_topic_change_in_some_seeds() -> None:
    """A deletion by that administrator that goes too far is found."""
    with ABLATIONS[TOO_MUCH]():
        outcome = Simulation(1, for_s=FOR_S).run()
    assert outcome.counts["admin delete records"]
    assert any(problem.startswith(tuple(FOUND[TOO_MUCH])) for problem in outcome.problems), outcome.problems


class Careless(Simulation):
    """A simulation whose only program logs an error when it is ended, and perhaps before."""

    fails_early = False

    async def main(self) -> None:
        self.program = asyncio.create_task(self._run())
        await asyncio.sleep(1)

    async def _run(self) -> None:
        try:
            if self.fails_early:
                self._complain("early")
            await asyncio.sleep(1e6)
        finally:
            self._complain("late")

    def _complain(self, when: str) -> None:
        try:
            raise RuntimeError(when)
        except RuntimeError:
            logging.getLogger("tailrace.server").exception("a program failed")


class TwiceCareless(Careless):
    fails_early = True


def test_errors_are_problems_unless_they_come_from_ending_the_simulation() -> None:
    """Programs that still ran at the end were ended without an event loop, and what they logged failed the seed."""
    assert Careless(1).run().problems == []
    assert TwiceCareless(1).run().problems == ["a program failed: RuntimeError('early')"]


def test_a_simulation_that_takes_too_long_says_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group without an owner for its partitions looked like too many steps of a producer."""
    monkeypatch.setattr(loop, "_STEPS_MAX", 500)
    problems = Simulation(1, for_s=FOR_S).run().problems
    assert any("more than 500 steps" in problem for problem in problems)
    assert any(problem.endswith("waiting for: the end of the faults") for problem in problems)


def test_a_broker_that_acknowledges_before_it_syncs_is_caught(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where power is lost, only what was flushed may be acknowledged; a broker that does not is found out."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")

    def acknowledge(appender: Appender, size_bytes: int) -> None:
        partition = appender._partition
        partition.advance_high_watermark(partition.log.log_end_offset, size_bytes)

    monkeypatch.setattr(Appender, "_join_flush", acknowledge)
    assert main(["--seed", "1", "--seeds", "6"]) == 1
    printed = capsys.readouterr().out
    findings = ("lost-write", "unseen", "inconsistent-offsets", "an acknowledged offset is lost")
    assert any(finding in printed for finding in findings)
    assert "repeat with: python -m tailrace.sim.simulate --seed" in printed
