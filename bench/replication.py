"""The speed at which an empty follower catches up, compared with a client that reads the same partition.

    python -m bench.replication [--rounds 5] [--mb 300]

A broker leads a partition that was filled before. In each round a client (confluent-kafka) reads all of it, and an
empty broker replicates all of it, one after the other, so that a change of the machine's speed affects both. A warm-up
round is not counted. Writes `docs/benchmarks/replication.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT
from bench.load import consume, produce
from bench.replication_broker import TOPIC

RECORD_BYTES = (100, 1000)
FOLLOW_TIMEOUT_S = 120.0


class Leader:
    """The broker from which both read."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "bench.replication_broker", "--data", str(folder), "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT)
        if self._process.stdout is None or self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the leader did not get ready")

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def follow(leader: Leader, folder: Path, count: int) -> dict[str, float]:
    """Replicate `count` records into an empty folder; return the seconds, and the CPU seconds of both brokers."""
    before = cpu_seconds(leader.pid)
    command = [sys.executable, "-m", "bench.replication_broker", "--data", str(folder), "--port", str(leader.port)]
    done = subprocess.run(
        [*command, "--follow", str(count)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=CHECKOUT,
        timeout=FOLLOW_TIMEOUT_S,
    )
    found = json.loads(done.stdout)
    return {"seconds": found["seconds"], "cpu_s": found["cpu_s"], "leader_cpu_s": cpu_seconds(leader.pid) - before}


def read(leader: Leader, count: int) -> dict[str, float]:
    """Read `count` records with one client; return the seconds, and the CPU seconds of client and broker."""
    before, started, own = cpu_seconds(leader.pid), time.perf_counter(), time.process_time()
    consume(leader, TOPIC, count)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "cpu_s": time.process_time() - own,
        "leader_cpu_s": cpu_seconds(leader.pid) - before,
    }


def measure(record_bytes: int, rounds: int, byte_limit: int) -> dict[str, Any]:
    """Run all rounds for one record size."""
    found: dict[str, list[dict[str, float]]] = {"client": [], "follower": []}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as name:
        leader = Leader(Path(name) / "leader")
        try:
            count = produce(leader, TOPIC, record_bytes, byte_limit, time_limit_s=120.0, acks="1")
            for number in range(-1, rounds):
                for what in ("client", "follower") if number % 2 else ("follower", "client"):
                    folder = Path(name) / f"follower-{number}"
                    figures = read(leader, count) if what == "client" else follow(leader, folder, count)
                    figures["mb_per_s"] = count * record_bytes / figures["seconds"] / 1e6
                    found[what].append(figures)
                    print(f"round {number + 1} {record_bytes:5} B {what:8} {figures['mb_per_s']:7.1f} MB/s", flush=True)
        finally:
            leader.stop()
    return {
        "record_bytes": record_bytes,
        "mb": count * record_bytes / 1e6,
        **{what: _summary(rounds_of[1:], count * record_bytes) for what, rounds_of in found.items()},
    }


def _summary(rounds: list[dict[str, float]], size_bytes: int) -> dict[str, Any]:
    def median(name: str, scale: float = 1.0) -> float:
        return round(statistics.median(figures[name] for figures in rounds) * scale, 3)

    return {
        "mb_per_s": median("mb_per_s"),
        "cpu_s_per_gb": median("cpu_s", 1e9 / size_bytes),
        "leader_cpu_s_per_gb": median("leader_cpu_s", 1e9 / size_bytes),
        "rounds_mb_per_s": [round(figures["mb_per_s"], 1) for figures in rounds],
    }


def _page(result: dict[str, Any]) -> str:
    rows = "".join(
        f"| {item['record_bytes']:,} B | {what} | {item[what]['mb_per_s']:,.0f} | {item[what]['cpu_s_per_gb']:.2f} "
        f"| {item[what]['leader_cpu_s_per_gb']:.2f} |\n"
        for item in result["results"]
        for what in ("client", "follower")
    )
    shares = ", ".join(
        f"{item['follower']['mb_per_s'] / item['client']['mb_per_s']:.2f} of it with records of "
        f"{item['record_bytes']:,} bytes"
        for item in result["results"]
    )
    conditions = result["conditions"]
    busy = ""
    if float(conditions["load before the run"]) > int(conditions["cores"]):
        busy = (
            "\n**The machine was busy with other work during this run**: the rates are those of a share of it, and say "
            "little about each other; the CPU seconds are to be compared.\n"
        )
    return f"""# How fast a follower catches up

Written by `{result["command"]}`; the figures of each round are in `replication.json`.

A partition is read from its beginning to its end by one client (confluent-kafka, one consumer), and replicated by a
second broker that begins with nothing and checks, writes and indexes what it gets. Both read from the same leader over
loopback, in turns; medians of {result["rounds"]} rounds.
Compared with the client's rate the follower's is {shares}.
{busy}
| records | reader | MB/s | reader, CPU s/GB | leader, CPU s/GB |
| ---: | --- | ---: | ---: | ---: |
{rows}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.replication", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--mb", type=int, default=300, help="megabytes of payload (default 300)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka")
    results = [measure(size, arguments.rounds, arguments.mb * 1_000_000) for size in RECORD_BYTES]
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.replication", rounds=arguments.rounds, mb=arguments.mb),
        "rounds": arguments.rounds,
        "conditions": conditions,
        "results": results,
    }
    (arguments.output / "replication.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "replication.md").write_text(_page(result))
    print(f"written: replication.json, replication.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
