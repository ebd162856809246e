"""`python -m tests.gate`: the tests in their lanes, as `make test` and `make test-all` run them."""

import argparse
import random
import sys

from tests.gate import report
from tests.gate.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gate", description=__doc__)
    parser.add_argument("paths", nargs="*", default=["tests"], help="files, folders or ids of tests; all if none")
    parser.add_argument("--all", action="store_true", help="the tests that take long or need more than PyPI, too")
    parser.add_argument("--workers", type=int, default=2, help="processes of the parallel lanes (%(default)s)")
    parser.add_argument("--seed", type=int, help="the order of an earlier run")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(2**32)
    plan = Plan(options.paths, seed, options.workers, options.all)
    return 0 if report.report(run(plan), seed, is_all=options.all, paths=options.paths) else 1


if __name__ == "__main__":
    sys.exit(main())
