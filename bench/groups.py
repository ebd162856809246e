"""The cost of many groups: CPU, memory, heartbeat latency, and the time until all groups are stable.

    python -m bench.groups [--groups 1000] [--members 5] [--seconds 20]

Every member has its own bare connection from one process, joins its group and then sends a heartbeat every three
seconds. When all groups are stable, heartbeats are measured for some seconds: first with the classic protocol, then
with the consumer protocol (KIP-848), each on its own broker, which is killed and restarted at the end. Writes
`docs/benchmarks/groups.json` and `.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT
from bench.group_load import Load, classic_member, consumer_member
from bench.partitions import Broker
from tailrace.base.event_loop import new_event_loop
from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.cluster import Cluster

INTERVAL_S = 3.0
STABLE_TIMEOUT_S = 120.0
TOPIC = "topic1"
MEMBERS = {"classic": classic_member, "consumer": consumer_member}


async def _create_topic(bootstrap: str, partition_count: int) -> None:
    async with Cluster(bootstrap) as cluster:
        await Admin(cluster).create_topics([NewTopic(TOPIC, partition_count)])


async def _wait_until_stable(load: Load, tasks: list[asyncio.Task[None]]) -> float:
    started = time.perf_counter()
    while len(load.stable) < len(tasks):
        _raise_failures(tasks)
        if time.perf_counter() - started > STABLE_TIMEOUT_S:
            raise RuntimeError(
                f"only {len(load.stable)} of {len(tasks)} members had an assignment after {STABLE_TIMEOUT_S} s"
            )
        await asyncio.sleep(0.05)
    return time.perf_counter() - started


def _raise_failures(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


async def _measure(protocol: str, broker: Broker, group_count: int, member_count: int, seconds: float) -> Any:
    await _create_topic(broker.address, member_count)
    load = Load(broker.address, TOPIC, member_count, INTERVAL_S)
    await load.find("group-0")
    empty_mb, empty_cpu_s = broker.rss_mb, cpu_seconds(broker.pid)
    member = MEMBERS[protocol]
    tasks = [
        asyncio.create_task(member(load, f"group-{group}", number))
        for number in range(member_count)
        for group in range(group_count)
    ]
    try:
        stable_s = await _wait_until_stable(load, tasks)
        joined_cpu_s = cpu_seconds(broker.pid) - empty_cpu_s
        await asyncio.sleep(INTERVAL_S)
        before_cpu_s, before_s = cpu_seconds(broker.pid), time.perf_counter()
        load.measures = True
        await asyncio.sleep(seconds)
        load.measures = False
        lasted_s = time.perf_counter() - before_s
        cpu_s = cpu_seconds(broker.pid) - before_cpu_s
        _raise_failures(tasks)
        return {
            "protocol": protocol,
            "stable_s": round(stable_s, 1),
            "stable_cpu_s": round(joined_cpu_s, 1),
            "cpu_s_per_s": round(cpu_s / lasted_s, 3),
            "heartbeats_per_s": round(len(load.latencies_ms) / lasted_s),
            "cpu_us_per_heartbeat": round(cpu_s / len(load.latencies_ms) * 1e6),
            "heartbeat_ms": _spread(load.latencies_ms),
            "load_lateness_ms": _spread(load.lateness_ms),
            "rss_mb": round(broker.rss_mb, 1),
            "kib_per_member": round((broker.rss_mb - empty_mb) * 1e6 / 1024 / len(tasks), 1),
        }
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _loaded_after_s(broker: Broker) -> float:
    """Return how long the coordinator takes to load its groups again."""
    started = time.perf_counter()
    await Load(broker.address, TOPIC, 0, INTERVAL_S).find_loaded("group-0")
    return time.perf_counter() - started


def measure(protocol: str, group_count: int, member_count: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Measure joins, heartbeats, and the restart after a kill."""
    broker = Broker(folder)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            found: dict[str, Any] = runner.run(_measure(protocol, broker, group_count, member_count, seconds))
    finally:
        broker.end(signal.SIGKILL)
    broker = Broker(folder)
    try:
        found["ready_after_kill_s"] = round(broker.ready_after_s, 2)
        found["loaded_after_ready_s"] = round(asyncio.run(_loaded_after_s(broker)), 3)
    finally:
        broker.end(signal.SIGTERM)
    return found


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "max": round(max(values), 2)}


def _page(result: dict[str, Any]) -> str:
    classic, consumer = result["results"]
    names: dict[str, Callable[[dict[str, Any]], str]] = {
        "time until all groups are stable": lambda row: f"{row['stable_s']:.1f} s",
        "broker CPU for that": lambda row: f"{row['stable_cpu_s']:.1f} s",
        "heartbeats a second": lambda row: f"{row['heartbeats_per_s']:,}",
        "broker CPU then, seconds a second": lambda row: f"{row['cpu_s_per_s']:.2f}",
        "broker CPU for a heartbeat": lambda row: f"{row['cpu_us_per_heartbeat']} µs",
        "heartbeat latency, median": lambda row: f"{row['heartbeat_ms']['p50']:.1f} ms",
        "heartbeat latency, 99 of 100": lambda row: f"{row['heartbeat_ms']['p99']:.1f} ms",
        "how late the load itself was, median and 99 of 100": lambda row: (
            f"{row['load_lateness_ms']['p50']:.1f} and {row['load_lateness_ms']['p99']:.1f} ms"
        ),
        "memory of the broker (resident)": lambda row: f"{row['rss_mb']:.0f} MB",
        "ready again after kill -9": lambda row: (
            f"{row['ready_after_kill_s']} s, and groups {row['loaded_after_ready_s']} s later"
        ),
        "memory for a member and its connection": lambda row: f"{row['kib_per_member']:.1f} KiB",
    }
    table = "".join(f"| {name} | {text(classic)} | {text(consumer)} |\n" for name, text in names.items())
    return f"""# What groups cost

Written by `{result["command"]}`; all figures are in `groups.json`. {result["groups"]:,} groups of
{result["members"]} members each on one broker with default settings, every member on a connection of its own,
a heartbeat every {INTERVAL_S:g} s, measured for {result["seconds"]:g} s once all groups are stable. The members are
coroutines of one process on the same machine, so latencies hold what that process adds: how late its own
timers fired says how much. A load before the run above the number of cores means that other work took
CPU from both, and that latencies and times are worse than the broker's own; CPU seconds are the broker's.

| | classic | consumer (KIP-848) |
| --- | ---: | ---: |
{table}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000, help="the number of groups (default 1000)")
    parser.add_argument("--members", type=int, default=5, help="members of each group (default 5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of measured heartbeats (default 20)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace")
    results = []
    for protocol in MEMBERS:
        folder = Path(tempfile.mkdtemp(prefix="tailrace-groups-"))
        try:
            found = measure(protocol, arguments.groups, arguments.members, arguments.seconds, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(found, indent=2), flush=True)
        results.append(found)
    result = {
        "command": machine.command_line(
            "bench.groups", groups=arguments.groups, members=arguments.members, seconds=arguments.seconds
        ),
        "conditions": {**conditions, "load after the run": f"{os.getloadavg()[0]:.1f}"},
        "groups": arguments.groups,
        "members": arguments.members,
        "seconds": arguments.seconds,
        "results": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "groups.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "groups.md").write_text(_page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
