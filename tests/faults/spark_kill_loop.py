"""The loop of a run: a feed writes, flows read, something is killed and comes back, and the output is compared.

Subclasses say what the flows are and where their output is: `spark_kill` has queries of a program of its own, and
`pipeline_kill` has pipeline files.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.faults.killable import Killable
from tests.faults.spark_kill_halt import Halt
from tests.faults.spark_kill_plan import Kill, Moment
from tests.faults.spark_kill_process import (
    Driver,
    LocalSpark,
    StandaloneSpark,
    executors,
    kill_chosen,
    kill_process,
    python_workers,
)

STEP_TIMEOUT_S = 600.0  # a busy machine needs minutes to bring a driver back
CALM_S = 5.0
REPORT_INTERVAL_S = 60.0


class Found(NamedTuple):
    """What the output of a flow turned out to be."""

    flow: str
    is_equal: bool
    text: str


class Feeder(Protocol):
    """Writes what the flows read, in a thread of its own."""

    count: int
    """How much is written."""

    def start(self) -> None: ...

    def check(self) -> None:
        """Raise what went wrong, if anything."""

    def end(self) -> int:
        """Write no more that belongs to an output; returns the count."""
        ...

    def close(self) -> None:
        """Write nothing any more."""


@dataclass(frozen=True, slots=True)
class Processes:
    """What a run kills. `servers` has those of each kind, by the name of the target."""

    driver: Driver
    spark: LocalSpark | StandaloneSpark
    servers: Mapping[str, Sequence[Killable]]


class KillLoop(ABC):
    """A feed and flows that are killed, with their servers."""

    def __init__(self, folder: Path, flows: Sequence[str], feed: Feeder, processes: Processes) -> None:
        self.flow_names = tuple(flows)
        self.halt = Halt(folder)
        self.feed = feed
        self.driver = processes.driver
        self.killed: Counter[str] = Counter()
        self._spark = processes.spark
        self._servers = processes.servers
        self._held: list[Kill] = []

    @abstractmethod
    def prepare(self) -> None:
        """Create what the flows read and write."""

    @abstractmethod
    def watched(self, flow: str) -> AbstractContextManager[Callable[[], int]]:
        """Provide a function whose result grows when a flow writes something."""

    @abstractmethod
    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        """Return the rows that each output must have in the end."""

    @abstractmethod
    def output(self, name: str) -> Counter[str]:
        """Return the rows that an output has."""

    def is_complete(self, name: str, expected: Counter[str], found: Counter[str]) -> bool:
        """Return whether an output has come to its end; more rows than expected may still be there."""
        return not expected - found

    def revive(self, problem: str) -> None:
        """Bring back a driver that has ended by itself."""
        raise AssertionError(f"{problem}: {self.driver.errors.read_text()[-3000:]}")

    def describe(self) -> str:
        """Say how far the flows are, for a run in which nothing is killed."""
        return f"{self.feed.count} records"

    def run(self, kills: list[Kill], until_s: float, tell: Callable[[str], None]) -> list[Found]:
        """Kill as planned, as long as there is time, or let the time pass if nothing is to be killed; and compare."""
        try:
            self.prepare()
            self.feed.start()
            self._spark.start()
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
            self._spark.end()

    def wait(self, condition: Callable[[], bool], problem: str, pause_s: float = 0.2) -> None:
        """Wait for a condition, while the feed and the driver are at work."""
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while not condition():
            self.feed.check()
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{problem}: {self.driver.errors.read_text()[-3000:]}")
            if not self.driver.is_running:
                self.revive(problem)
            time.sleep(pause_s)

    def _let_run(self, until_s: float, tell: Callable[[str], None]) -> None:
        """Kill nothing, and say from time to time how far the flows are."""
        while (left_s := until_s - time.monotonic()) > 0:
            self._wait_for_s(min(left_s, REPORT_INTERVAL_S))
            tell(self.describe())

    def _wait_for_s(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= until_s, "the flows do not run")

    def _kill(self, kill: Kill) -> None:
        """Wait for the moment, strike, and let what was killed come back."""
        if kill.moment is Moment.ANYWHERE:
            self._wait_for_output(kill.flow)
            time.sleep(kill.pause_s)
        else:
            self.halt.ask(kill)
            problem = f"flow {kill.flow} does not come to {kill.moment}"
            self.wait(lambda: self.halt.reached_by(kill) is not None, problem, 0.01)
        self._release()
        restart = self._strike(kill)
        self._held.append(kill)
        if not (kill.target == "driver" and kill.is_survived):
            self._release()
        restart()

    def _release(self) -> None:
        """Let processes that still stand still go on, if they live."""
        while self._held:
            self.halt.release(self._held.pop())

    def _strike(self, kill: Kill) -> Callable[[], None]:
        """Kill, and return what brings it back."""
        if kill.target == "driver":
            self.driver.kill(with_workers=not kill.is_survived)
            return self.driver.start
        if kill.target in self._servers:
            servers = self._servers[kill.target]
            server = servers[int(kill.choice * len(servers))]
            server.kill()

            def restart() -> None:
                time.sleep(kill.down_s)
                server.start()

            return restart
        sessions = (self.driver.session, *self._spark.sessions)
        standing = self.halt.reached_by(kill)
        if kill.target == "worker" and standing in python_workers(*sessions) and not kill.is_survived:
            assert standing is not None
            kill_process(standing)
        else:
            find = {"executor": executors, "worker": python_workers}[kill.target]
            self.wait(lambda: kill_chosen(find(*sessions), kill.choice), f"there is no {kill.target}")
        return lambda: None  # Spark starts another

    def _wait_for_output(self, flow: str) -> None:
        """Let a flow write something, so that kills hit all parts of a batch and not its start alone."""
        with self.watched(flow) as written:
            before = written()
            self.wait(lambda: written() > before, f"flow {flow} writes nothing", 0.01)

    def _compare(self, record_count: int) -> list[Found]:
        expected = self.truth(record_count)
        for name, rows in expected.items():
            self._wait_for_rows(name, rows)
        time.sleep(CALM_S)  # for what might come twice
        return [compare(name, rows, self.output(name)) for name, rows in expected.items()]

    def _wait_for_rows(self, name: str, expected: Counter[str]) -> None:
        problem = f"the output {name} does not come to its end"
        self.wait(lambda: self.is_complete(name, expected, self.output(name)), problem, 0.5)


def compare(name: str, expected: Counter[str], found: Counter[str]) -> Found:
    """Whether the rows of an output are the ones that were expected, and if not, which are not."""
    if found == expected:
        return Found(name, True, f"{found.total()} rows, sha256 {digest(found)[:16]} = {digest(expected)[:16]}")
    missing, extra = expected - found, found - expected
    return Found(
        name,
        False,
        f"{missing.total()} rows missing and {extra.total()} too many of {expected.total()}, "
        f"such as {[*extra, *missing][:3]}; sha256 {digest(found)[:16]}, not {digest(expected)[:16]}",
    )


def digest(rows: Counter[str]) -> str:
    """Says the same of the same rows, in whatever order they are."""
    return hashlib.sha256("\n".join(sorted(rows.elements())).encode()).hexdigest()
