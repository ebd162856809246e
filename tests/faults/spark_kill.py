"""kill -9 on Spark queries that write exactly once: their driver, their executors, Python workers and brokers.

A feed writes numbered records, several flows in one Spark session read them and write to a topic each
(`spark_kill_flow`), and again and again something is killed and comes back (`spark_kill_plan`). In the end every output
must be what the numbers say, by count and by hash. With `--without-decisions` the same kills strike a driver that
decides nothing before it commits, and then the output of at least one flow must differ (`spark_kill_desk` says why).
With `--kills 0` the flows run for as long as `--minutes` says, and no query may fail in that time.

    python -m tests.faults.spark_kill --kills 50 --seed 1 --brokers 3 --cluster
    python -m tests.faults.spark_kill --kills 0 --minutes 30
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.killable import Killable, running_brokers
from tests.faults.spark_kill_desk import DecidedSource, UndecidedSource
from tests.faults.spark_kill_evidence import Evidence
from tests.faults.spark_kill_feed import PARTITION_COUNT, SOURCE, Feed, output
from tests.faults.spark_kill_flow import make_flows
from tests.faults.spark_kill_halt import HALT_FOLDER
from tests.faults.spark_kill_loop import Found, KillLoop, Processes
from tests.faults.spark_kill_plan import plan_kills
from tests.faults.spark_kill_process import Driver, LocalSpark, StandaloneSpark

import tailrace


class Loop(KillLoop):
    """Queries of one Spark session, each with a topic for its output."""

    def __init__(
        self,
        folder: Path,
        address: str,
        brokers: list[Killable],
        *,
        on_cluster: bool,
        format_name: str,
        flow_count: int,
    ) -> None:
        self.address = address
        self.evidence = Evidence(folder)
        self.flows = make_flows(flow_count)
        environment = {HALT_FOLDER: str(folder)}
        spark = StandaloneSpark(folder, environment) if on_cluster else LocalSpark()
        arguments = [spark.master, address, SOURCE, str(folder), format_name, str(flow_count)]
        driver = Driver(["tests.faults.spark_kill_driver", *arguments], environment, folder / "driver.txt")
        processes = Processes(driver, spark, {"broker": brokers})
        super().__init__(folder, [flow.name for flow in self.flows], Feed(address), processes)
        self._replica_count = len(brokers)

    def prepare(self) -> None:
        with tailrace.Admin(self.address) as admin:
            names = (SOURCE, *self.flow_names)
            admin.create_topics([tailrace.NewTopic(name, PARTITION_COUNT, self._replica_count) for name in names])

    @contextmanager
    def watched(self, flow: str) -> Iterator[Callable[[], int]]:
        """Provide how far the output of a flow is written, committed or not."""
        partitions = [(flow, index) for index in range(PARTITION_COUNT)]
        consumer = tailrace.Consumer(self.address)
        try:
            yield lambda: sum(consumer.end_offsets(partitions).values())
        finally:
            consumer.close()

    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        return {flow.name: Counter(flow.truth(record_count)) for flow in self.flows}

    def output(self, name: str) -> Counter[str]:
        return Counter(output(self.address, name))

    def describe(self) -> str:
        batches = ", ".join(f"{name} {self.evidence.commits(name).batch_count}" for name in self.flow_names)
        return f"{self.feed.count} records; batches: {batches}; {self.evidence.failures().total()} failures"


def _report(found: list[Found], evidence: Evidence) -> Iterator[str]:
    """What came of each flow, and why queries failed."""
    failures = evidence.failures()
    for flow, is_equal, text in found:
        commits = evidence.commits(flow)
        yield f"flow {flow}: {'equal' if is_equal else 'different'}: {text}"
        yield (
            f"flow {flow}: {commits.batch_count} batches committed by {commits.worker_count} workers of "
            f"{commits.driver_count} drivers, by another worker than the batch before {commits.turn_count} times; "
            f"its query failed and was started again {failures[flow]} times"
        )
    for reason, count in evidence.reasons().most_common(5):
        yield f"failed {count} times: {reason}"


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--flows", type=int, default=4, help="streaming queries in the Spark session")
    parser.add_argument("--planned", type=int, help="end early: --kills are the first ones of a plan of so many")
    parser.add_argument("--minutes", type=float, help="kill nothing after so many; with --kills 0, run for so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--cluster", action="store_true", help="Spark's own cluster, with executors to kill")
    parser.add_argument("--without-decisions", action="store_true", help="expect that the output differs")
    options = parser.parse_args()
    if not options.kills and options.minutes is None:
        parser.error("--kills 0 needs --minutes: how long the flows run")
    return options


def main() -> int:
    """Run it as the command line says."""
    options = parse_arguments()
    targets = ("driver", "worker", "broker", "executor" if options.cluster else "worker")
    format_name = (UndecidedSource if options.without_decisions else DecidedSource).name()
    begun_s = time.monotonic()
    until_s = begun_s + 60 * options.minutes if options.minutes is not None else math.inf

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="tailrace-spark-kill-") as name,
        running_brokers(options.brokers, Path(name)) as (address, brokers),
    ):
        loop = Loop(
            *(Path(name), address, brokers),
            on_cluster=options.cluster,
            format_name=format_name,
            flow_count=options.flows,
        )
        kills = plan_kills(options.seed, options.planned or options.kills, targets, loop.flow_names)[: options.kills]
        found = loop.run(kills, until_s, tell)
        for line in _report(found, loop.evidence):
            tell(line)
        failure_count = loop.evidence.failures().total()
    is_equal = all(each.is_equal for each in found)
    outcome = f"{'equal' if is_equal else 'different'}, {loop.feed.count} records"
    tell(f"killed {dict(loop.killed)}; {outcome}; queries failed and were started again {failure_count} times")
    is_calm = bool(kills) or not failure_count  # where nothing is killed no query has a reason to fail
    return 0 if is_equal is not options.without_decisions and is_calm else 1


if __name__ == "__main__":
    sys.exit(main())
