"""The runner of seeds: `python -m tailrace.sim.simulate --seed 7` repeats one, `--seeds 100` runs a hundred from it on.

The first failure ends the run and prints the events before it and the command that repeats it.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tailrace.sim.batch import Play, Result, Total, run_batch
from tailrace.sim.cluster import ClusterSimulation, GroupSimulation
from tailrace.sim.determinism import fix_hashes
from tailrace.sim.history import write_history
from tailrace.sim.simulation import Outcome, Simulation
from tailrace.sim.transaction.simulation import TransactionClusterSimulation, TransactionSimulation

MODULE = "tailrace.sim.simulate"
_TAIL = 60


def main(arguments: list[str]) -> int:
    """Run the seeds of the command line. Return 1 if a seed failed."""
    options = _parser().parse_args(arguments)
    fix_hashes(MODULE, arguments)
    if options.seeds == 1:
        return _run_one(options)
    return _run_many(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="the number of seeds")
    parser.add_argument("--for", dest="for_s", type=float, metavar="SECONDS", help="the duration of the faults")
    parser.add_argument("--cluster", action="store_true", help="three to five brokers instead of one")
    parser.add_argument("--groups", action="store_true", help="a cluster with groups of many members in every seed")
    parser.add_argument("--transactions", action="store_true", help="transactional clients only")
    parser.add_argument("--jobs", type=int, default=1, help="the number of seeds that run in parallel")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failed seed")
    parser.add_argument("--summary", type=Path, help="a file for the table of results")
    parser.add_argument("--trace", action="store_true", help="print all events of one seed")
    parser.add_argument("--history", type=Path, help="a file for one seed's history, for tailrace.sim.check")
    return parser


def play(
    seed: int, *, is_cluster: bool, for_s: float | None, has_transactions: bool = False, has_groups: bool = False
) -> Outcome:
    """Run one seed."""
    world: type[Simulation] = TransactionSimulation if has_transactions else Simulation
    if is_cluster:
        world = TransactionClusterSimulation if has_transactions else ClusterSimulation
    if has_groups:
        world = GroupSimulation
    return world(seed, for_s=for_s).run()


def _play(options: argparse.Namespace) -> Play:
    kinds = {"has_transactions": options.transactions, "has_groups": options.groups}
    return partial(play, is_cluster=options.cluster, for_s=options.for_s, **kinds)


def _report(options: argparse.Namespace, seed: int, notes: Sequence[str], problems: Sequence[str]) -> str:
    kinds = {"has_transactions": options.transactions, "has_groups": options.groups}
    return report(seed, notes, problems, options.for_s, is_cluster=options.cluster, **kinds)


def _run_one(options: argparse.Namespace) -> int:
    outcome = _play(options)(options.seed)
    print(outcome, flush=True)
    if options.trace:
        print("\n".join(outcome.notes))
    if options.history is not None:
        write_history(outcome.events, options.history)
    if outcome.problems:
        print(_report(options, outcome.seed, outcome.notes, outcome.problems))
    return 1 if outcome.problems else 0


def _run_many(options: argparse.Namespace) -> int:
    seeds = range(options.seed, options.seed + options.seeds)

    def tell(failed: Result) -> None:
        print(_report(options, failed.seed, failed.notes, failed.problems), flush=True)

    total = run_batch(seeds, _play(options), jobs=options.jobs, keeps_going=options.keep_going, on_failure=tell)
    print(total.table())
    if options.summary is not None:
        options.summary.write_text(summary(total, seeds))
    return 1 if total.failures else 0


def summary(total: Total, seeds: range) -> str:
    """Return the results of a run of many seeds, for a file."""
    findings = [f"- seed {failed.seed}: {problem}" for failed in total.failures for problem in failed.problems]
    found = ["", "Findings:", "", *findings] if findings else []
    return "\n".join([f"Seeds {seeds.start} to {seeds.stop - 1}.", "", total.table(), *found, ""])


def report(
    seed: int,
    notes: Sequence[str],
    problems: Sequence[str],
    for_s: float | None,
    *,
    is_cluster: bool = False,
    has_transactions: bool = False,
    has_groups: bool = False,
) -> str:
    """Return the problems, the events before them, and the command that repeats them."""
    command = f"python -m {MODULE} --seed {seed}" + (f" --for {for_s:g}" if for_s is not None else "")
    command += (" --cluster" if is_cluster else "") + (" --transactions" if has_transactions else "")
    command += " --groups" if has_groups else ""
    tail = [f"  {note}" for note in notes[-_TAIL:]]
    told = [f"  {problem}" for problem in problems]
    return "\n".join([f"seed {seed} failed:", *tail, "problems:", *told, f"repeat with: {command} --trace"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
