"""kill -9 on a Spark query that writes exactly once: its driver, its executors, its Python workers and its brokers.

A feed writes numbered records, a query counts and sums them by key and minute into another topic, and again and again
something is killed and comes back (`spark_kill_plan`). In the end the output must be what the numbers say: each minute
of each key once, by count and by hash. With `--without-decisions` the same kills strike a driver that decides nothing
before it commits, and then the output must differ (`spark_kill_desk` says why).

    python -m tests.faults.spark_kill --kills 50 --seed 1 --brokers 3 --cluster
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.faults.broker_process import BrokerProcess
from tests.faults.spark_kill_desk import HALT_FOLDER, DecidedSource, UndecidedSource
from tests.faults.spark_kill_feed import PARTITION_COUNT, SINK, SOURCE, Feed, digest, output, truth
from tests.faults.spark_kill_halt import Halt
from tests.faults.spark_kill_plan import Kill, Moment, plan_kills
from tests.faults.spark_kill_process import Driver, LocalSpark, StandaloneSpark, executors, kill_chosen, python_workers
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster

import runnel

STEP_TIMEOUT_S = 1200.0  # a busy machine needs minutes to bring a driver back
CALM_S = 5.0
OPTIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "4"}
CLUSTER_OPTIONS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
}


class Difference(AssertionError):  # noqa: N818 - says what it is
    """The output is not what the numbers say."""


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
    """A feed and a query that is killed, with its brokers."""

    def __init__(
        self, folder: Path, address: str, brokers: list[Killable], *, on_cluster: bool, format_name: str
    ) -> None:
        self.address = address
        self.brokers = brokers
        self.halt = Halt(folder)
        environment = {HALT_FOLDER: str(folder)}
        self.spark = StandaloneSpark(folder, environment) if on_cluster else LocalSpark()
        arguments = [self.spark.master, address, SOURCE, SINK, str(folder), format_name]
        self.driver = Driver(arguments, environment, folder / "driver.txt")
        self.feed = Feed(address)
        self.killed: Counter[str] = Counter()
        self._held: list[Kill] = []

    def run(self, kills: list[Kill], until_s: float, tell: Callable[[str], None]) -> str:
        """Kill as planned, as long as there is time, and compare; a line about what was found."""
        try:
            with runnel.Admin(self.address) as admin:
                factor = len(self.brokers)
                admin.create_topics([runnel.NewTopic(name, PARTITION_COUNT, factor) for name in (SOURCE, SINK)])
            self.feed.start()
            self.spark.start()
            self.driver.start()
            for kill in kills:
                if time.monotonic() > until_s:
                    break
                self._kill(kill)
                self.killed[kill.target] += 1
                tell(f"kill {kill.number} of {len(kills)}: {kill.target} {kill.moment}, {self.feed.count} records")
            self._release()
            return self._compare(self.feed.end())
        finally:
            self.feed.close()
            self.driver.end()
            self.spark.end()

    def _kill(self, kill: Kill) -> None:
        """Wait for the moment, strike, and let what was killed come back."""
        if kill.moment is Moment.ANYWHERE:
            self._wait_for_output()
            time.sleep(kill.pause_s)
        else:
            self.halt.ask(kill)
            self._wait(lambda: self.halt.is_reached(kill), f"nobody comes to {kill.moment}", 0.01)
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
        find = {"executor": executors, "worker": python_workers}[kill.target]
        sessions = (self.driver.session, *self.spark.sessions)
        self._wait(lambda: kill_chosen(find(*sessions), kill.choice), f"there is no {kill.target}")
        return lambda: None  # Spark starts another

    def _wait_for_output(self) -> None:
        """Let the query write something, so that kills hit all parts of a batch and not its start alone."""
        consumer = runnel.Consumer(self.address)
        try:
            before = _written(consumer)
            self._wait(lambda: _written(consumer) > before, "the query writes nothing", 0.01)
        finally:
            consumer.close()

    def _compare(self, record_count: int) -> str:
        expected = Counter(truth(record_count))
        self._wait(lambda: len(set(output(self.address))) >= len(expected), "the query does not come to the end", 0.5)
        time.sleep(CALM_S)  # for what might come twice
        found = Counter(output(self.address))
        if found != expected:
            missing, extra = expected - found, found - expected
            raise Difference(
                f"{missing.total()} rows missing and {extra.total()} too many of {expected.total()}, "
                f"such as {list(extra)[:3]}; sha256 {digest(found)[:16]}, not {digest(expected)[:16]}"
            )
        return (
            f"{found.total()} rows from {record_count} records, sha256 {digest(found)[:16]} = {digest(expected)[:16]}"
        )

    def _wait(self, condition: Callable[[], bool], problem: str, pause_s: float = 0.2) -> None:
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while not condition():
            self.feed.check()
            if time.monotonic() > deadline_s or not self.driver.is_running:
                raise AssertionError(f"{problem}: {self.driver.errors.read_text()[-3000:]}")
            time.sleep(pause_s)


def _written(consumer: runnel.Consumer) -> int:
    """How far the output is written, committed or not."""
    return sum(consumer.end_offsets([(SINK, index) for index in range(PARTITION_COUNT)]).values())


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--planned", type=int, help="end early: --kills are the first ones of a plan of so many")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="kill nothing after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--cluster", action="store_true", help="Spark's own cluster, with executors to kill")
    parser.add_argument("--without-decisions", action="store_true", help="expect that the output differs")
    options = parser.parse_args()
    targets = ("driver", "worker", "broker", "executor" if options.cluster else "worker")
    format_name = (UndecidedSource if options.without_decisions else DecidedSource).name()
    begun_s = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="runnel-spark-kill-") as name,
        running_brokers(options.brokers, Path(name)) as (address, brokers),
    ):
        loop = Loop(Path(name), address, brokers, on_cluster=options.cluster, format_name=format_name)
        try:
            kills = plan_kills(options.seed, options.planned or options.kills, targets)[: options.kills]
            found = loop.run(kills, begun_s + 60 * options.minutes, tell)
            is_equal = True
        except Difference as difference:
            found, is_equal = str(difference), False
    tell(f"{dict(loop.killed)}; {'equal' if is_equal else 'different'}: {found}")
    return 0 if is_equal is not options.without_decisions else 1


if __name__ == "__main__":
    sys.exit(main())
