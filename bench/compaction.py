"""Compaction of a gigabyte of keyed records in a running broker: its time, its memory, and the latency of others.

    python -m bench.compaction [--mb 1000] [--keys 200000] [--idle-seconds 10]

A topic is filled with records of random keys. Then its cleanup.policy is set to compact, and a probe on another topic
produces and fetches single records until the compaction ends. Writes `docs/benchmarks/compaction.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT
from bench.load import ERRORS_ONLY, PRODUCER_SETTINGS
from bench.probe import Probe

TOPIC, PROBED = "keyed", "probed"
RECORD_BYTES = 1000
KEY_BYTES = 16
SEGMENT_BYTES = 100 << 20
DEDUPE_BYTES = 128 << 20
THROTTLE_BYTES = 100_000_000
TIMEOUT_S = 900.0
BACKOFF_MS = 100

# The measured cases: name, configs of the broker, its environment.
CASES: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("native", {}, {}),
    ("native, at most 100 MB/s", {"log.cleaner.io.max.bytes.per.second": str(THROTTLE_BYTES)}, {}),
    ("pure Python", {}, {"TAILRACE_PURE_PYTHON": "1"}),
)
DONE = re.compile(
    rf"{TOPIC}-0 was compacted up to offset (\d+) in ([\d.]+) s, with (\d+) keys: (\d+) bytes became (\d+)"
)


def measure(settings: dict[str, str], environment: dict[str, str], mb: int, keys: int, idle_s: float) -> dict[str, Any]:
    """Fill a topic, and measure first an idle broker and then one that compacts."""
    with TailraceBroker({"log.cleaner.backoff.ms": str(BACKOFF_MS), **settings}, environment) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": ERRORS_ONLY})
        topics = [NewTopic(TOPIC, 1, 1, config={"segment.bytes": str(SEGMENT_BYTES)}), NewTopic(PROBED, 1, 1)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        _fill(broker.bootstrap_servers, mb * 1_000_000 // RECORD_BYTES, keys)
        with Probe(broker.bootstrap_servers, PROBED, broker.pid) as idle:
            # Being idle is a state without an event to wait for.
            time.sleep(idle_s)
        rss_before, cpu_before = psutil.Process(broker.pid).memory_info().rss, cpu_seconds(broker.pid)
        with Probe(broker.bootstrap_servers, PROBED, broker.pid) as busy:
            _begin(admin)
            done = _wait(broker)
        return {
            "seconds": float(done[2]),
            "key_count": int(done[3]),
            "before_bytes": int(done[4]),
            "after_bytes": int(done[5]),
            "broker_cpu_s": round(cpu_seconds(broker.pid) - cpu_before, 2),
            "rss_before_mb": round(rss_before / 1e6, 1),
            "rss_peak_mb": round(busy.rss_bytes_max / 1e6, 1),
            "idle_ms": idle.figures(),
            "compacting_ms": busy.figures(),
        }


def _fill(bootstrap_servers: str, count: int, keys: int) -> None:
    producer = Producer({**PRODUCER_SETTINGS, "bootstrap.servers": bootstrap_servers, "log_level": ERRORS_ONLY})
    chooser = random.Random(1)
    values = [os.urandom(RECORD_BYTES - KEY_BYTES) for _ in range(1000)]
    for number in range(count):
        while len(producer) > 100_000:
            producer.poll(0.01)
        key = b"%016d" % chooser.randrange(keys)
        producer.produce(TOPIC, values[number % len(values)], key, partition=0)
    if producer.flush(120):
        raise RuntimeError("not all records were acknowledged")


def _begin(admin: AdminClient) -> None:
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def _wait(broker: TailraceBroker) -> re.Match[str]:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if done := DONE.search(broker.log_text()):
            return done
        time.sleep(0.05)
    raise RuntimeError(f"the compaction did not end within {TIMEOUT_S:.0f} s:\n{broker.log_text()}")


def _page(result: dict[str, Any]) -> str:
    first = result["cases"][0]
    return f"""# Compaction

Written by `{result["command"]}`; all figures are in `compaction.json`.

{first["before_bytes"] / 1e6:,.0f} MB of records of {RECORD_BYTES} B with {result["keys"]:,} different keys, not
compressed, in segments of {SEGMENT_BYTES >> 20} MiB, and one compaction of all but the last segment, which leaves
{first["after_bytes"] / 1e6:,.0f} MB. Meanwhile a probe on another topic sends one record of 1 kB with acks=all, waits
for the reply, fetches it back, rests for 2 ms, and so on; the same was done before, with nothing to compact. Broker,
probe and page cache share the machine. Default settings, but for the wait before a compaction, and the throttle
where it is named: it counts bytes read, twice, and bytes written. A load above the number of cores, below, means that
others disturbed the run: a thread of the broker may then be put aside while it holds the interpreter lock, and the
high percentiles tell of that.

| | time | MB/s | broker CPU | memory before | peak | bound on the map |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{_times(result["cases"])}
The memory is the resident set of the whole broker. The map of keys is bounded by `log.cleaner.dedupe.buffer.size` \
(128 MiB here); of that, only as much is used as there are dirty records, at 24 B and a tenth more each.

| latency in ms | | p50 | p99 | p99.9 | worst |
| --- | --- | ---: | ---: | ---: | ---: |
{_latencies(result["cases"])}
## The machine

{machine.table(result["conditions"])}"""


def _times(cases: list[dict[str, Any]]) -> str:
    return "".join(
        f"| {case['name']} | {case['seconds']:.1f} s | {case['before_bytes'] / case['seconds'] / 1e6:,.0f}"
        f" | {case['broker_cpu_s']:.1f} s | {case['rss_before_mb']:.0f} MB | {case['rss_peak_mb']:.0f} MB"
        f" | {DEDUPE_BYTES / 1e6:.0f} MB |\n"
        for case in cases
    )


def _latencies(cases: list[dict[str, Any]]) -> str:
    rows = []
    for case in cases:
        for kind in ("produce", "fetch"):
            for state, label in (("idle_ms", "idle"), ("compacting_ms", "compacting")):
                figures = case[state][kind]
                cells = " | ".join(f"{figures[name]:.2f}" for name in ("p50", "p99", "p99.9", "max"))
                rows.append(f"| {kind}, {label} | {case['name']} | {cells} |\n")
    return "".join(rows)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1000, help="megabytes of records (default 1000)")
    parser.add_argument("--keys", type=int, default=200_000, help="different keys (default 200000)")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="seconds to probe before it (default 10)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka")
    cases = []
    for name, settings, environment in CASES:
        case = measure(settings, environment, arguments.mb, arguments.keys, arguments.idle_seconds)
        cases.append({"name": name, **case})
        print(f"{name}: {case['seconds']:.1f} s, peak {case['rss_peak_mb']:.0f} MB", flush=True)
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line("bench.compaction", mb=arguments.mb, keys=arguments.keys),
        "keys": arguments.keys,
        "conditions": conditions,
        "cases": cases,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "compaction.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "compaction.md").write_text(_page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
