"""kill -9 on the Connect service, its Spark applications and the broker, while lines go from a file to a file.

A FileStream source reads a file that grows and writes a topic, and a FileStream sink writes the topic to another file.
At the end both connectors must run, and the second file must have the lines of the first one, by count and hash.

    python -m tests.faults.connect_kill --kills 20 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.connect_process import ConnectProcess, is_java, memory_mib
from tests.faults.broker_process import BrokerProcess

VICTIMS = ("service", "application", "java", "broker")
LINES_A_SECOND = 100
REST_S = 8.0
AWAY_S = 5.0
STATE_TIMEOUT_S = 300.0
CONNECTORS = ("in", "out")


class Feed:
    """Appends numbered lines to a file until it is stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        with self._path.open("a", buffering=1) as file:
            while not self._is_stopping.wait(1 / LINES_A_SECOND):
                file.write(f"line {number} {hashlib.sha256(str(number).encode()).hexdigest()}\n")
                number += 1

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Append during the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_stopping.set()
            self._thread.join()


class Killer:
    """Kills one of the processes at a time."""

    def __init__(self, broker: BrokerProcess, service: ConnectProcess, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._broker = broker
        self._service = service
        self._random = random

    def strike(self) -> None:
        """Kill something, and start it again if nothing else does."""
        victim = self._random.choice(VICTIMS)
        if victim == "service":
            self._service.kill()
            time.sleep(self._random.random())
            self._service.start()
        elif victim == "broker":
            self._broker.kill()
            time.sleep(self._random.random() * AWAY_S)
            self._broker.start()
        else:
            found = self._find(victim)
            if found is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
        self.counts[victim] += 1

    def _find(self, victim: str) -> int | None:
        applications = self._service.applications()
        javas = [pid for others in applications.values() for pid in others if is_java(pid)]
        found = sorted(applications) if victim == "application" else javas
        return self._random.choice(found) if found else None


def digest(path: Path) -> tuple[int, str]:
    """Return how many lines a file has, and the hash of all of them, sorted."""
    lines = sorted(path.read_bytes().splitlines()) if path.exists() else []
    return len(lines), hashlib.sha256(b"\n".join(lines)).hexdigest()


def create_connectors(service: ConnectProcess, source: Path, sink: Path) -> float:
    """Create both connectors, and return the seconds until they run."""
    started_at = time.monotonic()
    service.create("in", connector_class="FileStreamSource", file=str(source), topic="lines")
    service.create("out", connector_class="FileStreamSink", file=str(sink), topics="lines")
    for name in CONNECTORS:
        service.await_states(name, "RUNNING", "RUNNING", timeout_s=STATE_TIMEOUT_S)
    return time.monotonic() - started_at


def memory(service: ConnectProcess) -> str:
    """Return what one application needs, in words."""
    found = []
    for pid, others in service.applications().items():
        java = sum(memory_mib(other) for other in others if is_java(other))
        python = memory_mib(pid) + sum(memory_mib(other) for other in others if not is_java(other))
        found.append(f"{python:.0f} MiB Python and {java:.0f} MiB Java")
    return ", ".join(found)


def await_equal(source: Path, sink: Path) -> int:
    """Wait until both files have the same lines, and return how many; raises AssertionError if they never do."""
    wanted = digest(source)
    deadline = time.monotonic() + STATE_TIMEOUT_S
    while digest(sink)[0] < wanted[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert digest(sink) == wanted, f"{digest(sink)} lines came of {wanted}"
    return wanted[0]


def run(kills: int, seed: int, folder: Path, *options: str) -> str:
    """Kill, check, and return what was seen."""
    random = Random(seed)
    source, sink = folder / "in.txt", folder / "out.txt"
    source.touch()
    broker = BrokerProcess(folder / "broker")
    (folder / "broker").mkdir()
    broker.start()
    service = ConnectProcess(
        folder / "connect", broker.address, "--conf", "spark.sql.streaming.stopTimeout=10s", *options
    )
    killer = Killer(broker, service, random)
    recoveries = []
    try:
        service.start()
        with Feed(source).running():
            start_s = create_connectors(service, source, sink)
            told = f"both connectors ran after {start_s:.0f} s; each application: {memory(service)}"
            print(told, flush=True)
            for number in range(kills):
                time.sleep(random.random() * REST_S)
                struck_at = time.monotonic()
                killer.strike()
                if random.random() < 0.5:  # else the next kill comes before the connectors are back
                    for name in CONNECTORS:
                        service.await_states(name, "RUNNING", "RUNNING", timeout_s=STATE_TIMEOUT_S)
                    recoveries.append(time.monotonic() - struck_at)
                print(f"kill {number + 1}: {dict(killer.counts)}, {digest(sink)[0]} lines", flush=True)
        for name in CONNECTORS:
            service.await_states(name, "RUNNING", "RUNNING", timeout_s=STATE_TIMEOUT_S)
        count = await_equal(source, sink)
    finally:
        service.stop()
        service.client.close()
        broker.kill()
    worst = f", back to RUNNING within {max(recoveries):.0f} s" if recoveries else ""
    return f"{told}\n{sum(killer.counts.values())} kills {dict(killer.counts)}{worst}: {count} lines, equal by hash"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="config of Spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="connect-kill-") as folder:
        options = [word for pair in arguments.conf for word in ("--conf", pair)]
        print(run(arguments.kills, arguments.seed, Path(folder), *options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
