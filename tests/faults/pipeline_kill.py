"""kill -9 on pipelines that write exactly once: driver, Python workers, executors, broker and database.

A chain is a pipeline file that `tailrace pipeline run` runs (`pipeline_kill_loop`): topic to PostgreSQL, changes of
PostgreSQL to a topic to PostgreSQL, topic to S3, or a compacted topic to Delta and Iceberg tables. What is killed and
when is drawn from the seed before the run. In the end every output must be equal to the truth, by count and by hash.
With `--without-safeguard` the same places are struck without the safeguard of the sink (`pipeline_kill_sink`), and then
an output must differ.

    python -m tests.faults.pipeline_kill --chain postgres --kills 50 --seed 1 --cluster
    python -m tests.faults.pipeline_kill --chain postgres --kills 4 --seed 1 --without-safeguard
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.pipeline_kill_loop import CHAINS, KEY_COUNT, PipelineLoop, open_chain
from tests.faults.spark_kill_loop import Found


def _report(found: list[Found], loop: PipelineLoop) -> Iterator[str]:
    """Yield what came of each output, and why flows failed."""
    for name, is_equal, text in found:
        yield f"output {name}: {'equal' if is_equal else 'different'}: {text}"
    failures = loop.failures()
    yield f"flows failed and were restarted {failures.total()} times"
    for cause, count in failures.most_common(8):
        yield f"failed {count} times: {cause[:300]}"
    yield f"the program ended by itself {len(loop.endings)} times"
    for line, count in Counter(loop.endings).most_common(8):
        yield f"ended {count} times: {line[:300]}"


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chain", choices=CHAINS, required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=math.inf, help="kill nothing after so many")
    parser.add_argument("--keys", type=int, default=KEY_COUNT, help="keys of the compacted topic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", action="store_true", help="Spark's own cluster, with executors to kill")
    parser.add_argument("--without-safeguard", action="store_true", help="expect that the output differs")
    return parser.parse_args()


def main() -> int:
    """Run it as the command line says."""
    options = parse_arguments()
    begun_s = time.monotonic()
    is_safe = not options.without_safeguard

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="tailrace-pipeline-kill-") as name,
        open_chain(
            options.chain,
            Path(name),
            seed=options.seed,
            on_cluster=options.cluster,
            is_safe=is_safe,
            key_count=options.keys,
        ) as loop,
    ):
        kills = loop.plan(options.seed, options.kills, is_ablated=not is_safe)
        found = loop.run(kills, begun_s + 60 * options.minutes, tell)
        for line in _report(found, loop):
            tell(line)
    is_equal = all(each.is_equal for each in found)
    outcome = "equal" if is_equal else "different"
    tell(f"chain {options.chain}: killed {dict(loop.killed)}; {outcome}, {loop.feed.count} records")
    return 0 if is_equal is is_safe else 1


if __name__ == "__main__":
    sys.exit(main())
