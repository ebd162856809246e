"""Produce and consume throughput, compared with a bare loopback copy and with Apache Kafka, in one run.

    python -m bench.throughput [--rounds 5] [--mb 200] [--seconds 6] [--only tailrace,kafka]

All targets run at once and take turns, round by round, so that a machine that changes its
speed changes it for all of them; what is reported is the median of the rounds. One round
before the first is not counted: it warms the JVM, the page cache and the allocators.
Writes `docs/benchmarks/throughput.json`, `.md` and `.png`.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import loopback, machine, report
from bench.broker import TailraceBroker, Target, kafka_broker
from bench.cache import CHECKOUT, Unavailable
from bench.kafka import KAFKA_VERSION
from bench.load import Measurement, run_round

RECORD_BYTES = (100, 1000)
CEILING = "loopback copy"
MAKERS: dict[str, Callable[[], Target]] = {"tailrace": TailraceBroker, "kafka": kafka_broker}
NAMES = {"tailrace": "Tailrace", "kafka": f"Apache Kafka {KAFKA_VERSION}"}
FIGURES = ("mb_per_s", "records_per_s", "broker_cpu_s_per_gb", "client_cpu_s_per_gb", "other_cores")

Rounds = dict[tuple[str, int, str], list[Measurement]]


def measure(targets: dict[str, Target], rounds: int, byte_limit: int, time_limit_s: float) -> dict[str, Any]:
    """Run the rounds and return the medians with the figures of every round."""
    found: Rounds = {}
    copies: list[loopback.Copy] = []
    for number in range(-1, rounds):
        copies.append(loopback.copy(byte_limit))
        for name in _in_turn(list(targets), number):
            for record_bytes in RECORD_BYTES:
                topic = f"bench-{uuid.uuid4().hex[:8]}"
                phases = run_round(targets[name], topic, record_bytes, byte_limit, time_limit_s)
                for phase, measurement in zip(("produce", "consume"), phases, strict=True):
                    found.setdefault((name, record_bytes, phase), []).append(measurement)
                    _say(number, name, record_bytes, phase, measurement)
    return {
        "ceiling": _ceiling(copies[1:]),
        "results": [
            {"target": NAMES[name], "record_bytes": size, "phase": phase, **_figures(measurements[1:])}
            for (name, size, phase), measurements in found.items()
        ],
    }


def _in_turn(names: list[str], number: int) -> list[str]:
    """Return the order of a round. Each round begins with another target, so that none is always first."""
    start = number % len(names)
    return names[start:] + names[:start]


def _figures(measurements: list[Measurement]) -> dict[str, Any]:
    return {figure: _spread([getattr(item, figure) for item in measurements]) for figure in FIGURES}


def _ceiling(copies: list[loopback.Copy]) -> dict[str, Any]:
    return {
        "target": CEILING,
        "mb_per_s": _spread([copy.byte_count / copy.seconds / 1e6 for copy in copies]),
        "receiver_cpu_s_per_gb": _spread([copy.receiver_cpu_s / copy.byte_count * 1e9 for copy in copies]),
    }


def _spread(values: list[float]) -> dict[str, Any]:
    rounded = [round(value, 3) for value in values]
    return {"median": round(statistics.median(values), 3), "rounds": rounded}


def _say(number: int, name: str, record_bytes: int, phase: str, measurement: Measurement) -> None:
    label = "warm-up" if number < 0 else f"round {number + 1}"
    print(
        f"{label:8} {NAMES[name]:20} {phase} {record_bytes:5} B  {measurement.mb_per_s:7.1f} MB/s"
        f"  {measurement.records_per_s:10,.0f} records/s  broker {measurement.broker_cpu_s_per_gb:6.2f} CPU s/GB"
        f"  others {measurement.other_cores:.2f} cores",
        flush=True,
    )


def _start(names: list[str], stack: contextlib.ExitStack) -> tuple[dict[str, Target], list[str]]:
    """Return the targets that could be started, and a sentence for each that could not."""
    targets: dict[str, Target] = {}
    missing: list[str] = []
    for name in names:
        try:
            targets[name] = stack.enter_context(MAKERS[name]())
        except Unavailable as reason:
            missing.append(f"{NAMES[name]} was left out: {reason}.")
            print(missing[-1], file=sys.stderr)
    return targets, missing


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.throughput", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--mb", type=int, default=200, help="limit of payload megabytes in a phase (default 200)")
    parser.add_argument("--seconds", type=float, default=6.0, help="limit of seconds to produce in a phase (default 6)")
    parser.add_argument("--only", default="tailrace,kafka", help="the brokers to measure (default tailrace,kafka)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka")
    with contextlib.ExitStack() as stack:
        targets, missing = _start(arguments.only.split(","), stack)
        if not targets:
            return 1
        found = measure(targets, arguments.rounds, arguments.mb * 1_000_000, arguments.seconds)
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line(
            "bench.throughput", rounds=arguments.rounds, mb=arguments.mb, seconds=f"{arguments.seconds:g}"
        ),
        "rounds": arguments.rounds,
        "mb_max": arguments.mb,
        "seconds_max": arguments.seconds,
        "conditions": conditions,
        "missing": missing,
        **found,
    }
    report.write_throughput(result, arguments.output)
    print(f"written: throughput.json, throughput.md, throughput.png in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
