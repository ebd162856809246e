"""Logs that are shortened all the time, while brokers fail; `make simulate` runs many more seeds."""

import pytest
from tests.unit.sim.care_ablation import ABLATIONS, FOUND

from tailrace.sim.care import workload
from tailrace.sim.cluster import ClusterSimulation
from tailrace.sim.simulate import report

SEEDS = (5, 7, 10)
RARE = (
    "followers serve everything",
    "new leaders begin earlier",
    "logs begin with batches",
    "high watermarks stay behind",
)
"""These need dozens of seeds; `make simulate-ablations` finds them."""

LATE = ("tombstones go at once", "one segment more is deleted", "last batch is swept")
"""These need a dozen seeds or more, or one that takes long."""

_SEEDS_MAX = 40


class CareSimulation(ClusterSimulation):
    """Every seed has log care."""

    care_share = 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_is_taken_than_was_asked_for(seed: int) -> None:
    outcome = CareSimulation(seed).run()
    assert not outcome.problems, report(seed, outcome.notes, outcome.problems, None, is_cluster=True)
    kinds = [event["kind"] for event in outcome.events if event["type"] == "ok"]
    assert {"put", "scan", "lookup"} <= set(kinds)
    assert any("compacted-0 was compacted" in note for note in outcome.notes)


def test_one_seed_is_one_story() -> None:
    one, other = (CareSimulation(10, for_s=2.0).run() for _ in range(2))
    assert (one.digest, one.notes) == (other.digest, other.notes)


def test_some_seeds_have_it_and_others_do_not() -> None:
    assert {ClusterSimulation(seed).care is None for seed in range(20)} == {True, False}


def test_no_two_tombstones_of_a_key_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tombstones of a key had the same timestamp by chance. The checker took the first one for the second, and
    reported that another record had been acknowledged at its offset (seed 60860)."""
    monkeypatch.setattr(workload, "_TOMBSTONE_SHARE", 1.0)
    monkeypatch.setattr(workload, "_JITTER_MS", 0)
    outcome = CareSimulation(5, for_s=2.0).run()
    puts = [event for event in outcome.events if event["kind"] == "put" and event["type"] == "invoke"]
    tombstones = [(put["partition"], put["key"], put["timestamp_ms"]) for put in puts if put["value"] is None]
    assert len(set(tombstones)) == len(tombstones) > 0
    assert not outcome.problems, report(5, outcome.notes, outcome.problems, 2.0, is_cluster=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LATE)) for name in ABLATIONS if name not in RARE]
)
def test_a_safeguard_is_needed(name: str) -> None:
    with ABLATIONS[name]():
        problems = (problem for seed in range(1, _SEEDS_MAX) for problem in CareSimulation(seed).run().problems)
        assert any(word in problem for problem in problems for word in FOUND[name])
