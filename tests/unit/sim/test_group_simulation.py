"""Seeds about groups, with all safeguards and without one; `make simulate-ablations` takes every one away."""

import pytest
from tests.unit.sim.group_ablation import ABLATIONS, FOUND

from tailrace.sim.cluster import GroupSimulation
from tailrace.sim.simulate import report

SEEDS_MAX = 30
QUICK = ("partitions are assigned twice", "owned partitions are free", "newest offset is not loaded")
"""The ablations that one of the first seeds finds."""


@pytest.mark.parametrize("name", QUICK)
def test_a_safeguard_is_needed(name: str) -> None:
    with ABLATIONS[name]():
        problems = (problem for seed in range(1, SEEDS_MAX) for problem in GroupSimulation(seed).run().problems)
        assert any(word in problem for problem in problems for word in FOUND[name])


def test_one_seed_about_groups_is_one_story() -> None:
    one, other = (GroupSimulation(3).run() for _ in range(2))
    assert (one.digest, one.notes) == (other.digest, other.notes)
    assert not one.problems, report(3, one.notes, one.problems, None, has_groups=True)
