"""The cost of partitions: to create, write, stop and start them, and their memory.

    python -m bench.partitions [--partitions 10000] [--records 10]

Topics of a thousand partitions are created, and each partition gets records of 1,000 random bytes. Then the broker is
stopped cleanly and started again, and killed and started again, with the files in the page cache. Writes
`docs/benchmarks/partitions.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT

TOPIC_PARTITIONS = 1000
RECORD_BYTES = 1000
TIMEOUT_S = 600.0


class Broker:
    """`tailrace start` on a folder that remains when the broker ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-m", "tailrace.cli.main", "start", "--data", str(folder / "data")]
        with (folder / "broker.log").open("a") as log:
            started = time.perf_counter()
            self._process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        if self._process.stdout is None:
            raise RuntimeError("the broker has no output")
        line = self._process.stdout.readline()
        self.ready_after_s = time.perf_counter() - started
        if " ready on " not in line:
            raise RuntimeError((folder / "broker.log").read_text()[-2000:])
        self.address = line.rsplit(" ", 1)[-1].strip()
        self.start_cpu_s = cpu_seconds(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def rss_mb(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss) / 1e6

    @property
    def descriptor_count(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def end(self, how: signal.Signals) -> float:
        """End the broker with a signal, and return the seconds that it took."""
        started = time.perf_counter()
        self._process.send_signal(how)
        self._process.wait(TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return time.perf_counter() - started


def _timed(action: Callable[[], None]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _create(address: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for number in range(0, count, TOPIC_PARTITIONS):
        topic = NewTopic(f"t{number}", min(TOPIC_PARTITIONS, count - number), 1)
        made = admin.create_topics([topic], request_timeout=TIMEOUT_S, operation_timeout=TIMEOUT_S)
        for future in made.values():
            future.result(TIMEOUT_S)


def _produce(address: str, count: int, record_count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "queue.buffering.max.messages": 1_000_000})
    for _ in range(record_count):
        for number in range(count):
            topic, partition = number // TOPIC_PARTITIONS * TOPIC_PARTITIONS, number % TOPIC_PARTITIONS
            producer.produce(f"t{topic}", os.urandom(RECORD_BYTES), partition=partition)
            producer.poll(0)
        if producer.flush(TIMEOUT_S):
            raise RuntimeError("not all records were acknowledged")


def _started(broker: Broker, count: int, empty: dict[str, float]) -> dict[str, Any]:
    return {
        "ready_s": round(broker.ready_after_s, 3),
        "ready_cpu_s": round(broker.start_cpu_s, 3),
        "ms_per_partition": round((broker.ready_after_s - empty["ready_s"]) / count * 1e3, 4),
        "cpu_ms_per_partition": round((broker.start_cpu_s - empty["ready_cpu_s"]) / count * 1e3, 4),
        "rss_mb": round(broker.rss_mb, 1),
        "kib_per_partition": round((broker.rss_mb - empty["rss_mb"]) * 1e6 / 1024 / count, 2),
        "descriptors": broker.descriptor_count,
    }


def measure(count: int, record_count: int, folder: Path) -> dict[str, Any]:
    """Measure a broker through creating, writing, stopping, starting, killing and starting."""
    broker = Broker(folder)
    empty = {"ready_s": broker.ready_after_s, "ready_cpu_s": broker.start_cpu_s, "rss_mb": broker.rss_mb}
    found: dict[str, Any] = {"empty": {name: round(value, 3) for name, value in empty.items()}}
    found["create_s"] = round(_timed(lambda: _create(broker.address, count)), 1)
    found["created"] = {"rss_mb": round(broker.rss_mb, 1), "descriptors": broker.descriptor_count}
    found["produce_s"] = round(_timed(lambda: _produce(broker.address, count, record_count)), 1)
    found["produced"] = {"rss_mb": round(broker.rss_mb, 1), "descriptors": broker.descriptor_count}
    found["clean_stop_s"] = round(broker.end(signal.SIGTERM), 2)
    broker = Broker(folder)
    found["clean_start"] = _started(broker, count, empty)
    found["idle_stop_s"] = round(broker.end(signal.SIGTERM), 2)
    broker = Broker(folder)
    _produce(broker.address, count, 1)
    broker.end(signal.SIGKILL)
    broker = Broker(folder)
    found["start_after_kill"] = _started(broker, count, empty)
    found["stop_after_recovery_s"] = round(broker.end(signal.SIGTERM), 2)
    return found


def _page(result: dict[str, Any]) -> str:
    count, clean, killed = result["partitions"], result["clean_start"], result["start_after_kill"]
    rows = {
        f"making {count:,} partitions": f"{result['create_s']:.0f} s, {result['create_s'] / count * 1e3:.1f} ms each",
        f"{result['records']} records of {RECORD_BYTES} bytes to each": f"{result['produce_s']:.0f} s",
        "memory of the broker then (resident)": f"{result['produced']['rss_mb']:.0f} MB",
        "clean stop after that, everything synced": f"{result['clean_stop_s']:.1f} s",
        "start after a clean stop, to the ready line": f"{clean['ready_s']:.1f} s, {clean['ms_per_partition']:.2f} ms"
        f" a partition ({clean['cpu_ms_per_partition']:.2f} ms of CPU)",
        "memory after it": f"{clean['rss_mb']:.0f} MB, {clean['kib_per_partition']:.1f} KiB a partition",
        "descriptors after it": f"{clean['descriptors']}",
        "clean stop of an idle broker": f"{result['idle_stop_s']:.1f} s",
        "start after kill -9, every log scanned": f"{killed['ready_s']:.1f} s, {killed['ms_per_partition']:.2f} ms"
        f" a partition ({killed['cpu_ms_per_partition']:.2f} ms of CPU)",
        "memory after it ": f"{killed['rss_mb']:.0f} MB, {killed['kib_per_partition']:.1f} KiB a partition",
        "descriptors after it ": f"{killed['descriptors']}",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    return f"""# What partitions cost

Written by `{result["command"]}`; all figures are in `partitions.json`. Partitions of topics of
{TOPIC_PARTITIONS:,} each in one folder, files in the page cache. What an empty broker takes is
taken off the figures of one partition.

| | |
| --- | --- |
{table}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.partitions", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="the number of partitions (default 10000)")
    parser.add_argument("--records", type=int, default=10, help="records for each partition (default 10)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-partitions-"))
    try:
        found = measure(arguments.partitions, arguments.records, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = {
        "command": machine.command_line("bench.partitions", partitions=arguments.partitions, records=arguments.records),
        "conditions": conditions,
        "partitions": arguments.partitions,
        "records": arguments.records,
        **found,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "partitions.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "partitions.md").write_text(_page(result))
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
