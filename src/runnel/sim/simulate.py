"""Run seeds: `python -m runnel.sim.simulate --seed 7` repeats one, `--seeds 100` runs a hundred from there on.

The first failure ends the run with everything that went before it and the command that repeats it.
"""

import argparse
import sys
from pathlib import Path

from runnel.sim.cluster import ClusterSimulation
from runnel.sim.determinism import fix_hashes
from runnel.sim.history import write_history
from runnel.sim.simulation import Outcome, Simulation

MODULE = "runnel.sim.simulate"
_TAIL = 60


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--for", dest="for_s", type=float, default=60.0, metavar="SECONDS", help="how long faults last")
    parser.add_argument("--cluster", action="store_true", help="three to five brokers instead of one")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first seed that fails")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--history", type=Path, help="write the last seed's history here, for runnel.sim.check")
    options = parser.parse_args(arguments)
    fix_hashes(MODULE, arguments)
    failed = []
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = (ClusterSimulation if options.cluster else Simulation)(seed, for_s=options.for_s).run()
        print(outcome, flush=True)
        if options.trace:
            print("\n".join(outcome.notes))
        if options.history is not None:
            write_history(outcome.events, options.history)
        if outcome.problems:
            failed.append(seed)
            print(report(outcome, options.for_s, is_cluster=options.cluster), flush=True)
            if not options.keep_going:
                break
    if options.seeds > 1:
        print(f"{len(failed)} seeds failed: {failed}" if failed else f"all {options.seeds} seeds are fine")
    return 1 if failed else 0


def report(outcome: Outcome, for_s: float, *, is_cluster: bool = False) -> str:
    """What went wrong, what went before it, and how to see it again."""
    command = f"python -m {MODULE} --seed {outcome.seed}" + (f" --for {for_s:g}" if for_s != 60.0 else "")
    command += " --cluster" if is_cluster else ""
    tail = [f"  {note}" for note in outcome.notes[-_TAIL:]]
    problems = [f"  {problem}" for problem in outcome.problems]
    return "\n".join([f"seed {outcome.seed} failed:", *tail, "problems:", *problems, f"repeat with: {command} --trace"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
