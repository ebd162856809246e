"""Every safeguard taken away in turn, and the seeds after which the simulator notices: `make simulate-ablations`.

A checker that finds nothing has proved nothing until it has found something. Each ablation is a patch that takes one
safeguard away. The simulator runs seed after seed with it, until one fails with a finding that this ablation explains.
The run fails if an ablation is not found within its seeds.

    python -m tests.faults.simulate_ablations --seeds 500 --only overtake
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tests.unit.sim import (
    ablation,
    admin_ablation,
    care_ablation,
    disk_ablation,
    group_ablation,
    produce_ablation,
    transaction_ablation,
)

from tailrace.sim.cluster import ClusterSimulation, GroupSimulation
from tailrace.sim.determinism import fix_hashes
from tailrace.sim.simulation import Simulation
from tailrace.sim.transaction.simulation import TransactionClusterSimulation

MODULE = "tests.faults.simulate_ablations"
SEEDS_MAX = 500
REPLICATION = frozenset({"Violation", "lost-write", "unseen", "inconsistent-offsets", "misplaced"})
"""The first words of the problems that replicas cause."""

PRODUCE = frozenset({"duplicate", "lost-write", "unseen", "misplaced", "nonmonotonic-send", "inconsistent-offsets"})
"""The first words of the problems that producers cause."""

UNTOLD = frozenset({"aborted-read"})
"""The first words of the problems that a producer causes that takes a doubtful refusal for a definite one."""


class Ablation(NamedTuple):
    """One safeguard to take away, and the simulation that has to notice."""

    name: str
    take_away: Callable[[], AbstractContextManager[Any]]
    simulation: type[Simulation]
    findings: Collection[str]


class Found(NamedTuple):
    """The seed that noticed, None for none, and its problem."""

    seed: int | None
    seed_count: int
    problem: str
    cpu_s: float

    @property
    def after(self) -> str:
        return f"more than {self.seed_count}" if self.seed is None else f"{self.seed_count} (seed {self.seed})"


def all_ablations() -> Iterator[Ablation]:
    """Yield every ablation of the simulator's tests."""
    yield from _of(ablation.ABLATIONS, ClusterSimulation, dict.fromkeys(ablation.ABLATIONS, REPLICATION))
    produce = dict.fromkeys(produce_ablation.ABLATIONS, PRODUCE) | {"doubt is not told": UNTOLD}
    yield from _of(produce_ablation.ABLATIONS, ClusterSimulation, produce)
    yield from _of(care_ablation.ABLATIONS, ClusterSimulation, care_ablation.FOUND)
    yield from _of(disk_ablation.ABLATIONS, ClusterSimulation, disk_ablation.FOUND)
    yield from _of(admin_ablation.ABLATIONS, ClusterSimulation, admin_ablation.FOUND)
    one_broker = {"leader deletes too much, one broker": admin_ablation.leader_deletes_too_much}
    yield from _of(one_broker, Simulation, dict.fromkeys(one_broker, admin_ablation.FOUND["leader deletes too much"]))
    yield from _of(group_ablation.ABLATIONS, GroupSimulation, group_ablation.FOUND)
    yield from _of(transaction_ablation.ABLATIONS, TransactionClusterSimulation, transaction_ablation.FOUND)


def _of(
    ablations: Mapping[str, Callable[[], AbstractContextManager[Any]]],
    simulation: type[Simulation],
    findings: Mapping[str, Collection[str]],
) -> Iterator[Ablation]:
    for name, take_away in ablations.items():
        yield Ablation(name, take_away, simulation, findings[name])


def find(tried: Ablation, seeds: range) -> Found:
    """Run seeds without a safeguard until one of them notices."""
    began_s = time.process_time()
    with tried.take_away():
        for count, seed in enumerate(seeds, 1):
            problems = tried.simulation(seed).run().problems
            noticed = [problem for problem in problems if any(word in problem for word in tried.findings)]
            if noticed:
                return Found(seed, count, noticed[0], time.process_time() - began_s)
    return Found(None, len(seeds), "", time.process_time() - began_s)


def main(arguments: list[str]) -> int:
    """Try all ablations. Return 1 if one is not found."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="the number of seeds for each ablation")
    parser.add_argument("--only", default="", metavar="TEXT", help="only ablations whose names contain this text")
    options = parser.parse_args(arguments)
    fix_hashes(MODULE, arguments)
    missed = []
    print("| without the safeguard: | seeds until it is found | by | CPU |\n|---|---|---|---|", flush=True)
    for tried in all_ablations():
        if options.only in tried.name:
            found = find(tried, range(options.seed, options.seed + options.seeds))
            print(f"| {tried.name} | {found.after} | {found.problem[:120]} | {found.cpu_s:.0f} s |", flush=True)
            missed += [tried.name] if found.seed is None else []
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
