"""The cost of idle replicated partitions: CPU and memory of each of two brokers.

    python -m bench.idle_partitions [--partitions 10000] [--seconds 120]

Two brokers replicate all partitions, and each leads every second one. Every partition gets one record. When all records
are replicated, nothing more happens, and what the brokers use from then on is the cost of idle partitions, minus the
same with one partition. Writes `docs/benchmarks/idle_partitions.json` and `.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from confluent_kafka import Producer

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT
from tailrace.base.event_loop import new_event_loop
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    ControllerRecord,
    Endpoint,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.server.server import start_server

BROKERS = (1, 2)
TOPIC = "t"
RECORD_BYTES = 100
POLL_S = 0.1
TIMEOUT_S = 600.0
REST_S = 10.0
"""The wait after the last record, for the work that follows from it."""


# --- one broker, in a process of its own


async def _serve(broker_id: int, data: str, ports: Sequence[int], count: int) -> None:
    """Run one of two brokers with constant metadata. Print when it is ready, and when it has all records."""
    store = MemoryStore()
    metadata = ClusterMetadata(store)
    await metadata.load()
    admissions = set()

    def admit(records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, BrokerRecord):
                admissions.add(asyncio.ensure_future(metadata.commit([BrokerAdmitted(record.broker_id, record.epoch)])))

    metadata.listen(admit)
    other = BROKERS[broker_id % 2]
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", ports[other - 1], "PLAINTEXT")
    turns = [(BROKERS[index % 2], BROKERS[(index + 1) % 2]) for index in range(count)]
    states = [PartitionRecord(TOPIC, index, turn[0], 0, turn) for index, turn in enumerate(turns)]
    # The first commit to a store makes the first epoch.
    await metadata.commit([ControllerRecord(0, 1), BrokerRecord(other, 1, (endpoint,))])
    await metadata.commit([TopicRecord(TOPIC, UUID(int=7), tuple(turns)), *states])
    settings = {
        "node.id": str(broker_id),
        "log.dirs": data,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[broker_id - 1]}",
    }
    server = await start_server(BrokerConfig(settings), store=store)
    print("ready", flush=True)
    while any(partition.high_watermark < 1 for partition in server.broker.replicas.all()):
        await asyncio.sleep(POLL_S)
    print("replicated", flush=True)
    await asyncio.Event().wait()


# --- measuring


def measure(count: int, seconds: float) -> dict[str, Any]:
    """Measure two brokers with `count` idle partitions for `seconds`."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        ports = [_free_port() for _ in BROKERS]
        processes = [_start(broker_id, Path(folder), ports, count) for broker_id in BROKERS]
        try:
            for process in processes:
                _expect(process, "ready")
            _produce(ports, count)
            for process in processes:
                _expect(process, "replicated")
            time.sleep(REST_S)
            before, other_before = [cpu_seconds(process.pid) for process in processes], machine.busy_seconds()
            time.sleep(seconds)
            used = [cpu_seconds(process.pid) - start for process, start in zip(processes, before, strict=True)]
            other_cores = (machine.busy_seconds() - other_before - sum(used)) / seconds
            memory = [psutil.Process(process.pid).memory_info().rss for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
    return {
        "partitions": count,
        "cpu_percent": [round(each / seconds * 100, 3) for each in used],
        "rss_mb": [round(each / 1e6, 1) for each in memory],
        "other_cores": round(other_cores, 2),
    }


def _start(broker_id: int, folder: Path, ports: Sequence[int], count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.idle_partitions", "--partitions", str(count), "--broker", str(broker_id)]
    options = ["--data", str(folder / str(broker_id)), "--ports", *map(str, ports)]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT)


def _expect(process: subprocess.Popen[str], word: str) -> None:
    if process.stdout is None or process.stdout.readline().strip() != word:
        raise RuntimeError(f"a broker did not report {word!r}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _produce(ports: Sequence[int], count: int) -> None:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    timeouts_ms = {"socket.timeout.ms": 300_000, "request.timeout.ms": 300_000, "message.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": servers, "acks": "1", **timeouts_ms})
    for index in range(count):
        producer.produce(TOPIC, os.urandom(RECORD_BYTES), partition=index)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("not all records were acknowledged")


def _page(result: dict[str, Any]) -> str:
    one, many = result["one"], result["many"]
    rows = "".join(
        f"| {found['partitions']:,} | {max(found['cpu_percent']):.2f} % | {max(found['rss_mb']):.0f} MB |\n"
        for found in (one, many)
    )
    return f"""# What idle partitions cost

Written by `{result["command"]}`; both brokers' figures are in `idle_partitions.json`.

Two brokers replicate all partitions, and each leads every second one. Each partition has one record. Then nothing
happens for {result["seconds"]:g} s, and this is what the dearer of the brokers uses:

| partitions | CPU, of one core | memory (resident) |
| ---: | ---: | ---: |
{rows}
So {many["partitions"]:,} idle partitions cost a broker {result["cpu_percent"]:.2f} % of a core, which is
{result["cpu_us_per_s"]:.2f} µs a second for one, and {result["kib_per_partition"]:.1f} KiB of memory each.
Other programs kept {many["other_cores"]:.1f} cores busy meanwhile.

## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle_partitions", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="the number of partitions (default 10000)")
    parser.add_argument("--seconds", type=float, default=120, help="seconds without load (default 120)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    parser.add_argument("--broker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.broker is not None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(arguments.broker, arguments.data, arguments.ports, arguments.partitions))
        return 0
    conditions = machine.conditions("tailrace", "confluent-kafka")
    one, many = measure(1, arguments.seconds), measure(arguments.partitions, arguments.seconds)
    cpu_percent = max(many["cpu_percent"]) - max(one["cpu_percent"])
    count = arguments.partitions - 1
    result = {
        "command": machine.command_line(
            "bench.idle_partitions", partitions=arguments.partitions, seconds=arguments.seconds
        ),
        "conditions": conditions,
        "seconds": arguments.seconds,
        "one": one,
        "many": many,
        "cpu_percent": round(cpu_percent, 3),
        "cpu_us_per_s": round(cpu_percent / 100 * 1e6 / count, 3),
        "kib_per_partition": round((max(many["rss_mb"]) - max(one["rss_mb"])) * 1e6 / 1024 / count, 2),
    }
    (arguments.output / "idle_partitions.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "idle_partitions.md").write_text(_page(result))
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
