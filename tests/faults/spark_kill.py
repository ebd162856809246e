"""kill -9 on a Spark query that writes exactly once: its driver, its Python workers and its broker.

A feed writes numbered records, a query counts and sums them by key and minute into another topic, and at random
moments something is killed and comes back. In the end the output must be what the numbers say: each minute of each
key once, by count and by hash. With `--without-decisions` the driver decides nothing before it commits, and then
the output must differ.

    python -m tests.faults.spark_kill --kills 50 --seed 1
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.faults.broker_process import BrokerProcess

import runnel

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCE, SINK = "numbers", "minutes"
PARTITION_COUNT = 2
KEY_COUNT = 5
MINUTE = 60
RECORDS_A_SECOND = 100
FLUSH_SECONDS = 4 * 3600  # how far ahead the last records are, so that every minute before them ends
STEP_TIMEOUT_S = 600.0
PAUSES_S = (0.05, 0.5, 2.0)  # at most; the first ones hit the end of a batch, and others anything
TARGETS = ("driver", "worker", "broker")


class Difference(AssertionError):  # noqa: N818 - says what it is
    """The output is not what the numbers say."""


class Feed(threading.Thread):
    """Writes numbers until it is told to stop, and then some that end all minutes."""

    def __init__(self, address: str) -> None:
        super().__init__(name="feed", daemon=True)
        self.count = 0
        self._address = address
        self._stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with runnel.Producer(self._address, linger_ms=20, delivery_timeout_ms=600_000) as producer:
                while not self._stopping.wait(0.05) or self.count % MINUTE:
                    for _ in range(RECORDS_A_SECOND // 20):
                        self._send(producer, self.count)
                        self.count += 1
                for number in range(PARTITION_COUNT):
                    self._send(producer, self.count + FLUSH_SECONDS + number)
        except BaseException as error:
            self.failure = error

    def _send(self, producer: runnel.Producer, number: int) -> None:
        producer.send(SOURCE, b"%d" % number, b"%d" % (number % KEY_COUNT), partition=number % PARTITION_COUNT)

    def end(self) -> None:
        """Stop, and return when everything is written."""
        self._stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure


class Driver:
    """The query's program, started again when it is killed."""

    def __init__(self, folder: Path, address: str, format_name: str) -> None:
        self._command = [sys.executable, "-m", "tests.faults.spark_kill_driver"]
        self._command += [address, SOURCE, SINK, str(folder), format_name]
        self.errors = folder / "driver.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []

    def start(self) -> None:
        environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
        with self.errors.open("a") as errors:
            self._process = subprocess.Popen(
                self._command, cwd=CHECKOUT, env=environment, stderr=errors, start_new_session=True
            )
        self._sessions.append(self._process.pid)

    def kill(self) -> None:
        """Kill the program and Java; Python workers go when they notice, and may still be at work."""
        assert self._process is not None
        for pid, command in processes(self._process.pid):
            if "pyspark.daemon" not in command:
                _kill(pid)
        self._process.wait()

    def kill_worker(self, random: Random) -> bool:
        """Kill one of the Python processes in which tasks run; whether there was any."""
        assert self._process is not None
        workers = [pid for pid, command in processes(self._process.pid) if "pyspark.daemon" in command]
        if workers:
            _kill(random.choice(workers))
        return bool(workers)

    def end(self) -> None:
        """Kill all that any of the programs has started."""
        for session in self._sessions:
            for pid, _ in processes(session):
                _kill(pid)
        if self._process is not None:
            self._process.wait()


def processes(session: int) -> Iterator[tuple[int, str]]:
    """The processes of a session, with their command lines."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended meanwhile
            if int(fields[3]) == session and fields[0] != "Z":
                yield int(folder.name), command


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Loop:
    """A broker, a feed, and a query that is killed."""

    def __init__(self, folder: Path, seed: int, targets: Sequence[str], *, has_decisions: bool) -> None:
        self.random = Random(seed)
        self.targets = targets
        self.broker = BrokerProcess(folder, {"offsets.topic.num.partitions": "1"})
        self.driver = Driver(folder, self.broker.address, "runnel" if has_decisions else "undecided")
        self.killed: Counter[str] = Counter()

    def run(self, kill_count: int, tell: Callable[[str], None]) -> str:
        """Kill so often, and compare; a line about what was found."""
        self.broker.start()
        try:
            with runnel.Admin(self.broker.address) as admin:
                admin.create_topics([runnel.NewTopic(name, PARTITION_COUNT) for name in (SOURCE, SINK)])
            feed = Feed(self.broker.address)
            feed.start()
            self.driver.start()
            for number in range(1, kill_count + 1):
                self._wait_for_output()
                self._kill_something()
                tell(f"kill {number} of {kill_count}: {dict(self.killed)}, {feed.count} records")
            feed.end()
            return self._compare(feed.count)
        finally:
            self.driver.end()
            self.broker.kill()

    def _wait_for_output(self) -> None:
        """Let the query write something, so that kills hit all parts of a batch and not its start alone."""
        consumer = runnel.Consumer(self.broker.address)
        try:
            before = _written(consumer)
            self._wait(lambda: _written(consumer) > before, "the query writes nothing", 0.01)
        finally:
            consumer.close()
        time.sleep(self.random.uniform(0, self.random.choice(PAUSES_S)))

    def _kill_something(self) -> None:
        chosen = self.random.choice(self.targets)
        if chosen == "worker" and not self.driver.kill_worker(self.random):
            chosen = "driver"
        if chosen == "driver":
            self.driver.kill()
            self.driver.start()
        elif chosen == "broker":
            self.broker.kill()
            time.sleep(self.random.uniform(0, 0.5))
            self.broker.start()
        self.killed[chosen] += 1

    def _compare(self, record_count: int) -> str:
        expected = Counter(truth(record_count))
        self._wait(lambda: len(set(output(self.broker.address))) >= len(expected), "the query does not come to the end")
        time.sleep(5)  # for what might come twice
        found = Counter(output(self.broker.address))
        if found != expected:
            missing, extra = expected - found, found - expected
            raise Difference(f"{missing.total()} rows missing, {extra.total()} too many, such as {list(extra)[:3]}")
        return (
            f"{found.total()} rows from {record_count} records, sha256 {digest(found)[:16]} = {digest(expected)[:16]}"
        )

    def _wait(self, condition: Callable[[], bool], problem: str, pause_s: float = 0.2) -> None:
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{problem}: {self.driver.errors.read_text()[-3000:]}")
            time.sleep(pause_s)


def _written(consumer: runnel.Consumer) -> int:
    """How far the output is written, committed or not."""
    return sum(consumer.end_offsets([(SINK, index) for index in range(PARTITION_COUNT)]).values())


def truth(record_count: int) -> Iterator[str]:
    """The output as the numbers have it; their count is a multiple of a minute."""
    for first in range(0, record_count, MINUTE):
        for key in range(KEY_COUNT):
            numbers = [number for number in range(first, first + MINUTE) if number % KEY_COUNT == key]
            yield f"{first} {key} {len(numbers)} {sum(numbers)}"


def output(address: str) -> list[str]:
    """What a reader of committed records finds."""
    table = runnel.read_table(address, SINK, columns=["value"], isolation_level="read_committed")
    return [(value or b"").decode() for value in table.column("value").to_pylist()]


def digest(rows: Counter[str]) -> str:
    return hashlib.sha256("\n".join(sorted(rows.elements())).encode()).hexdigest()


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default=",".join(TARGETS), help="what is killed, with commas between")
    parser.add_argument("--without-decisions", action="store_true", help="expect that the output differs")
    options = parser.parse_args()
    begun_s = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="runnel-spark-kill-") as folder:
        loop = Loop(Path(folder), options.seed, options.targets.split(","), has_decisions=not options.without_decisions)
        try:
            found = loop.run(options.kills, tell)
        except Difference as difference:
            tell(f"different: {difference}")
            return 0 if options.without_decisions else 1
    tell(f"equal: {found}")
    return 1 if options.without_decisions else 0


if __name__ == "__main__":
    sys.exit(main())
