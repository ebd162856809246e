"""A mirror whose tasks run in threads instead of Spark, for runs that start many of them.

python -m tests.faults.mirror_threads east=127.0.0.1:9092 west=127.0.0.1:9093 'orders.*' [--keep-offsets]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tailrace.cli.mirror import read_cluster
from tailrace.cli.mirror_run import say
from tailrace.spark.mirror.copy_task import run_copy
from tailrace.spark.mirror.job import CopyJob, CopyReport
from tailrace.spark.mirror.name import MirrorName
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.run import MirrorRun

TASK_COUNT = 2


def main() -> None:
    """Run until the process is killed."""
    source, target, topics, *rest = sys.argv[1:]
    (source_name, source_config), (target_name, target_config) = (
        read_cluster(option, text, option, None) for option, text in (("from", source), ("to", target))
    )
    name = MirrorName(source_name, target_name)
    options = MirrorOptions(
        name,
        source_config,
        target_config,
        re.compile(topics),
        task_count=TASK_COUNT,
        round_s=2.0,
        keep_offsets="--keep-offsets" in rest,
    )
    run = MirrorRun(options, say)
    run.start()
    with ThreadPoolExecutor(TASK_COUNT) as pool:

        def run_jobs(jobs: Sequence[CopyJob]) -> list[CopyReport]:
            return list(pool.map(run_copy, jobs))

        run.run(run_jobs, lambda _: False)


if __name__ == "__main__":
    main()
