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
from typing import NamedTuple, Protocol

from tests.faults.broker_process import BrokerProcess
from tests.faults.spark_kill_desk import HALT_FOLDER, DecidedSource, UndecidedSource
from tests.faults.spark_kill_evidence import Evidence
from tests.faults.spark_kill_feed import PARTITION_COUNT, SOURCE, Feed, digest, output
from tests.faults.spark_kill_flow import make_flows
from tests.faults.spark_kill_halt import Halt
from tests.faults.spark_kill_plan import Kill, Moment, plan_kills
from tests.faults.spark_kill_process import (
    Driver,
    LocalSpark,
    StandaloneSpark,
    executors,
    kill_chosen,
    kill_process,
    python_workers,
)
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster

import runnel

STEP_TIMEOUT_S = 1200.0  # a busy machine needs minutes to bring a driver back
CALM_S = 5.0
REPORT_INTERVAL_S = 60.0
OPTIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "4"}
CLUSTER_OPTIONS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
}


class Found(NamedTuple):
    """What the output of a flow turned out to be."""

    flow: str
    is_equal: bool
    text: str


class Killable(Protocol):
    """A broker's process."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


@contextmanager
def running_brokers(count: int, folder: Path) -> Iterator[tuple[str, list[Killable]]]:
    """One broker, or a cluster of three, and how to reach them."""
    if count == 1:
        broker = BrokerProcess(folder, OPTIONS)
        broker.start()
        try:
            yield broker.address, [broker]
        finally:
            broker.kill()
    else:
        cluster = Cluster(folder, Network(), OPTIONS | CLUSTER_OPTIONS, server_count=1)
        try:
            cluster.start()
            yield cluster.bootstrap_servers, list(cluster.brokers.values())
        finally:
            cluster.end()


class Loop:
    """A feed and flows that are killed, with their brokers."""

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
        self.brokers = brokers
        self.halt = Halt(folder)
        self.evidence = Evidence(folder)
        self.flows = make_flows(flow_count)
        environment = {HALT_FOLDER: str(folder)}
        self.spark = StandaloneSpark(folder, environment) if on_cluster else LocalSpark()
        arguments = [self.spark.master, address, SOURCE, str(folder), format_name, str(flow_count)]
        self.driver = Driver(arguments, environment, folder / "driver.txt")
        self.feed = Feed(address)
        self.killed: Counter[str] = Counter()
        self._held: list[Kill] = []

    def run(self, kills: list[Kill], until_s: float, tell: Callable[[str], None]) -> list[Found]:
        """Kill as planned, as long as there is time, or let the time pass if nothing is to be killed; and compare."""
        try:
            with runnel.Admin(self.address) as admin:
                names = (SOURCE, *(flow.name for flow in self.flows))
                admin.create_topics([runnel.NewTopic(name, PARTITION_COUNT, len(self.brokers)) for name in names])
            self.feed.start()
            self.spark.start()
            self.driver.start()
            if not kills:
                self._let_run(until_s, tell)
            for kill in kills:
                if time.monotonic() > until_s:
                    break
                self._kill(kill)
                self.killed[kill.target] += 1
                where = f"{kill.target} {kill.moment}, flow {kill.flow}"
                tell(f"kill {kill.number} of {len(kills)}: {where}, {self.feed.count} records")
            self._release()
            return self._compare(self.feed.end())
        finally:
            self.feed.close()
            self.driver.end()
            self.spark.end()

    def _let_run(self, until_s: float, tell: Callable[[str], None]) -> None:
        """Kill nothing, and say from time to time how far the flows are."""
        while (left_s := until_s - time.monotonic()) > 0:
            at_s = time.monotonic() + min(left_s, REPORT_INTERVAL_S)
            self._wait(lambda at_s=at_s: time.monotonic() >= at_s, "the flows do not run")
            batches = ", ".join(f"{flow.name} {self.evidence.commits(flow.name).batch_count}" for flow in self.flows)
            tell(f"{self.feed.count} records; batches: {batches}; {self.evidence.failures().total()} failures")

    def _kill(self, kill: Kill) -> None:
        """Wait for the moment, strike, and let what was killed come back."""
        if kill.moment is Moment.ANYWHERE:
            self._wait_for_output(kill.flow)
            time.sleep(kill.pause_s)
        else:
            self.halt.ask(kill)
            problem = f"flow {kill.flow} does not come to {kill.moment}"
            self._wait(lambda: self.halt.reached_by(kill) is not None, problem, 0.01)
        self._release()
        restart = self._strike(kill)
        self._held.append(kill)
        if not (kill.target == "driver" and kill.is_survived):
            self._release()
        restart()

    def _release(self) -> None:
        """Let go on whoever still stands still, if it lives."""
        while self._held:
            self.halt.release(self._held.pop())

    def _strike(self, kill: Kill) -> Callable[[], None]:
        """Kill, and return what brings it back."""
        if kill.target == "driver":
            self.driver.kill(with_workers=not kill.is_survived)
            return self.driver.start
        if kill.target == "broker":
            broker = self.brokers[int(kill.choice * len(self.brokers))]
            broker.kill()

            def restart() -> None:
                time.sleep(kill.down_s)
                broker.start()

            return restart
        standing = self.halt.reached_by(kill)
        if kill.target == "worker" and standing is not None and not kill.is_survived:
            kill_process(standing)
        else:
            find = {"executor": executors, "worker": python_workers}[kill.target]
            sessions = (self.driver.session, *self.spark.sessions)
            self._wait(lambda: kill_chosen(find(*sessions), kill.choice), f"there is no {kill.target}")
        return lambda: None  # Spark starts another

    def _wait_for_output(self, flow: str) -> None:
        """Let a flow write something, so that kills hit all parts of a batch and not its start alone."""
        consumer = runnel.Consumer(self.address)
        try:
            before = _written(consumer, flow)
            self._wait(lambda: _written(consumer, flow) > before, f"flow {flow} writes nothing", 0.01)
        finally:
            consumer.close()

    def _compare(self, record_count: int) -> list[Found]:
        expected = {flow.name: Counter(flow.truth(record_count)) for flow in self.flows}
        for flow, rows in expected.items():
            problem = f"flow {flow} does not come to the end"
            self._wait(lambda flow=flow, rows=rows: len(set(output(self.address, flow))) >= len(rows), problem, 0.5)
        time.sleep(CALM_S)  # for what might come twice
        return [compare(flow, rows, Counter(output(self.address, flow))) for flow, rows in expected.items()]

    def _wait(self, condition: Callable[[], bool], problem: str, pause_s: float = 0.2) -> None:
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while not condition():
            self.feed.check()
            if time.monotonic() > deadline_s or not self.driver.is_running:
                raise AssertionError(f"{problem}: {self.driver.errors.read_text()[-3000:]}")
            time.sleep(pause_s)


def compare(flow: str, expected: Counter[str], found: Counter[str]) -> Found:
    """Whether the rows of a flow are the ones that were expected, and if not, which are not."""
    if found == expected:
        return Found(flow, True, f"{found.total()} rows, sha256 {digest(found)[:16]} = {digest(expected)[:16]}")
    missing, extra = expected - found, found - expected
    return Found(
        flow,
        False,
        f"{missing.total()} rows missing and {extra.total()} too many of {expected.total()}, "
        f"such as {[*extra, *missing][:3]}; sha256 {digest(found)[:16]}, not {digest(expected)[:16]}",
    )


def _written(consumer: runnel.Consumer, flow: str) -> int:
    """How far the output of a flow is written, committed or not."""
    return sum(consumer.end_offsets([(flow, index) for index in range(PARTITION_COUNT)]).values())


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
        tempfile.TemporaryDirectory(prefix="runnel-spark-kill-") as name,
        running_brokers(options.brokers, Path(name)) as (address, brokers),
    ):
        loop = Loop(
            *(Path(name), address, brokers),
            on_cluster=options.cluster,
            format_name=format_name,
            flow_count=options.flows,
        )
        flows = [flow.name for flow in loop.flows]
        kills = plan_kills(options.seed, options.planned or options.kills, targets, flows)[: options.kills]
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
