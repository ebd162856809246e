"""Three to five real brokers in a world where things go wrong; `make simulate` runs many more seeds."""

import pytest
from tests.unit.sim.ablation import ABLATIONS, no_lease_after_the_wait
from tests.unit.sim.admin_ablation import late_writes_change_the_next_topic
from tests.unit.sim.produce_ablation import no_duplicates_are_known
from tests.unit.sim.script import (
    Fork,
    FullDisks,
    LateIsrChange,
    LateWrite,
    PausedLeader,
    Plain,
    Scene,
    TwoQuickElections,
)

from tailrace.sim.cluster import ClusterSimulation
from tailrace.sim.simulate import report
from tailrace.sim.world import ACKNOWLEDGED

SEEDS = (3, 8, 9, 12, 14, 22, 34, 47)
"""What seeds found once is in the tests of what was wrong."""

SAFEGUARDS = {
    "no epoch check on fetch": Fork,
    "truncation to the high watermark": TwoQuickElections,
    "no compare-and-set": LateIsrChange,
    "reply before the ISR has it": Plain,
    "fetch before the append": FullDisks,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_every_invariant_holds(seed: int) -> None:
    simulation = ClusterSimulation(seed)
    outcome = simulation.run()
    assert not outcome.problems, report(seed, outcome.notes, outcome.problems, None, is_cluster=True)
    assert simulation.invariants.check_count > 20
    assert outcome.counts[ACKNOWLEDGED] >= 10


def test_one_seed_is_one_story() -> None:
    one, other = (ClusterSimulation(7, for_s=3.0).run() for _ in range(2))
    assert (one.digest, one.notes) == (other.digest, other.notes)


LONG = "reply before the ISR has it"
"""Without the safeguard the scene takes ten times as long as with it."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == LONG)) for name in ABLATIONS])
def test_a_safeguard_is_needed(name: str) -> None:
    """The scene goes well with it, and is found out without it."""
    outcome = Scene(1, SAFEGUARDS[name]).run()
    assert not outcome.problems, outcome.notes
    with ABLATIONS[name]():
        outcome = Scene(1, SAFEGUARDS[name]).run()
    assert any("Violation" in problem for problem in outcome.problems), outcome.notes


def test_what_the_followers_have_may_be_acknowledged_without_the_lease() -> None:
    """The lease is looked at again after the wait; a record that has passed the high watermark does not need that."""
    with no_lease_after_the_wait() as different:
        outcome = Scene(1, PausedLeader).run()
    assert different, outcome.notes
    assert not outcome.problems, outcome.notes


def test_a_late_write_about_a_deleted_topic_is_found_if_it_counts_for_the_next_one() -> None:
    """The records of the deleted topic are missing in both cases."""
    outcome = Scene(1, LateWrite).run()
    assert not any("Violation" in problem for problem in outcome.problems), outcome.problems
    with late_writes_change_the_next_topic():
        outcome = Scene(1, LateWrite).run()
    assert any("Violation" in problem for problem in outcome.problems), outcome.notes


def test_a_batch_that_is_written_twice_is_found() -> None:
    """Most seeds show it; `make simulate-ablations` looks for the rarer faults of producers in hundreds of seeds."""
    with no_duplicates_are_known():
        found = (problem for seed in range(1, 6) for problem in ClusterSimulation(seed).run().problems)
        assert any(problem.startswith("duplicate in ") for problem in found)
