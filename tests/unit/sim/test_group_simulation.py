"""Seeds about groups, with all safeguards and without one; `make simulate-ablations` takes every one away."""

import pytest
from tests.unit.sim.group_ablation import ABLATIONS, FOUND

from tailrace.sim.cluster import GroupSimulation
from tailrace.sim.group_workload import GroupWorkload
from tailrace.sim.simulate import report
from tailrace.sim.workload import Workload

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


class HeldCommits(GroupSimulation):
    """A simulation whose network holds every commit of every member during the faults."""

    def choose_workloads(self) -> list[Workload]:
        chosen = super().choose_workloads()
        for workload in chosen:
            if isinstance(workload, GroupWorkload):
                members = (member._replace(hold_share=1.0) for member in workload.groups.members)
                workload.groups = workload.groups._replace(members=tuple(members))
        return chosen


def test_no_commit_is_held_when_all_faults_are_healed() -> None:
    """The network went on holding commits, and all heartbeats with them. So groups excluded member after member, and
    seed 51032 ended before each partition had one owner."""
    for seed in range(5, 25):
        outcome = HeldCommits(seed, for_s=2.0).run()
        assert not outcome.problems, report(seed, outcome.notes, outcome.problems, 2.0, has_groups=True)
        (healed_at,) = (index for index, note in enumerate(outcome.notes) if note.endswith(" heal"))
        held_at = [index for index, note in enumerate(outcome.notes) if "holds a commit" in note]
        if held_at:
            assert max(held_at) < healed_at
            return
    raise AssertionError("no commit was held")
