"""Tailrace's Python client compared with confluent-kafka: columns and records, writing and reading one topic.

    python -m bench.client [--records 5000000] [--rounds 3] [--broker tailrace|kafka]

All ways of writing and reading take turns in each round, on one broker, so that a change of the machine's speed affects
all of them. The report has the median of the rounds, after a warm-up round that is not counted. Writes
`docs/benchmarks/client.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow as pa

import tailrace
from bench import machine
from bench.broker import TailraceBroker, Target, cpu_seconds, kafka_broker
from bench.cache import CHECKOUT, Unavailable
from bench.load import CONSUMER_SETTINGS, PRODUCER_SETTINGS

RECORD_BYTES = 100
DISTINCT_VALUES = 10_000
CONSUME_COUNT = 10_000
STALL_TIMEOUT_S = 60.0
BATCH_SIZE_BYTES = 1_000_000
MAKERS: dict[str, Callable[[], Target]] = {"tailrace": TailraceBroker, "kafka": kafka_broker}

WRITE = "write"
READ = "read"
TAILRACE_SETTINGS: dict[str, Any] = {"acks": "all", "linger_ms": 5, "batch_size": BATCH_SIZE_BYTES}


@dataclass(frozen=True)
class Way:
    """One way to write or read the topic; `share` is the part of the records that it handles."""

    name: str
    phase: str
    run: Callable[[str, str, int], int]
    share: float = 1.0


class Data:
    """The records, as a table and as values."""

    def __init__(self, count: int) -> None:
        self.values = [os.urandom(RECORD_BYTES) for _ in range(DISTINCT_VALUES)]
        repeated = pa.array(self.values * (count // DISTINCT_VALUES) + self.values[: count % DISTINCT_VALUES])
        self.table = pa.table({"value": repeated.cast(pa.binary())})


def write_confluent(data: Data, bootstrap: str, topic: str, count: int) -> int:
    """Write with `produce` in a loop."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **PRODUCER_SETTINGS})
    produce, values = producer.produce, data.values
    for index in range(count):
        try:
            produce(topic, values[index % DISTINCT_VALUES])
        except BufferError:
            producer.poll(0.1)
            produce(topic, values[index % DISTINCT_VALUES])
    if producer.flush(STALL_TIMEOUT_S):
        raise RuntimeError("confluent-kafka did not deliver all records")
    return count


def write_table(data: Data, bootstrap: str, topic: str, count: int) -> int:
    """Write with one call of `send_table`."""
    with tailrace.Producer(bootstrap, **TAILRACE_SETTINGS) as producer:
        return producer.send_table(topic, data.table[:count]).result(STALL_TIMEOUT_S).record_count


def write_records(data: Data, bootstrap: str, topic: str, count: int) -> int:
    """Write with `send` in a loop."""
    with tailrace.Producer(bootstrap, **TAILRACE_SETTINGS) as producer:
        send, values = producer.send, data.values
        for index in range(count):
            future = send(topic, values[index % DISTINCT_VALUES])
        producer.flush()
        future.result(STALL_TIMEOUT_S)
    return count


def read_confluent(bootstrap: str, topic: str, count: int) -> int:
    """Read with `consume`, many messages at a time, and check their values, as a program would."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **CONSUMER_SETTINGS})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    seen = 0
    try:
        while seen < count:
            messages = consumer.consume(CONSUME_COUNT, STALL_TIMEOUT_S)
            if not messages:
                raise RuntimeError("confluent-kafka stalled")
            for message in messages:
                if len(message.value() or b"") != RECORD_BYTES:
                    raise RuntimeError(str(message.error()))
            seen += len(messages)
    finally:
        consumer.close()
    return seen


def read_batches(bootstrap: str, topic: str, count: int, columns: list[str] | None = None) -> int:
    """Read with `batches()` until all records have arrived."""
    seen = 0
    with tailrace.Consumer(bootstrap).assign([(topic, 0, "earliest")]) as consumer:
        for batch in consumer.batches(columns, timeout_s=STALL_TIMEOUT_S):
            seen += int(batch.num_rows)
            if seen >= count:
                return seen
    raise RuntimeError("batches() stalled")


def read_values(bootstrap: str, topic: str, count: int) -> int:
    """Read with `batches(columns=["value"])`."""
    return read_batches(bootstrap, topic, count, ["value"])


def read_records(bootstrap: str, topic: str, count: int) -> int:
    """Read records one by one."""
    seen = 0
    with tailrace.Consumer(bootstrap).assign([(topic, 0, "earliest")]) as consumer:
        for _ in consumer:
            seen += 1
            if seen >= count:
                break
    return seen


def ways(data: Data) -> list[Way]:
    """Return all measured ways, in the order of the report."""
    return [
        Way("confluent-kafka `produce`", WRITE, lambda *arguments: write_confluent(data, *arguments)),
        Way("tailrace `send_table`", WRITE, lambda *arguments: write_table(data, *arguments)),
        Way("tailrace `send`", WRITE, lambda *arguments: write_records(data, *arguments), share=0.1),
        Way("confluent-kafka `consume`", READ, read_confluent),
        Way("tailrace `batches()`", READ, read_batches),
        Way('tailrace `batches(["value"])`', READ, read_values),
        Way("tailrace `for record in consumer`", READ, read_records, share=0.1),
    ]


def measure(target: Target, count: int, rounds: int) -> list[dict[str, Any]]:
    """Run the rounds and return the medians with the figures of every round."""
    data = Data(count)
    chosen = ways(data)
    found: dict[str, list[dict[str, float]]] = {way.name: [] for way in chosen}
    read_topic = f"read-{uuid.uuid4().hex[:8]}"
    _create(target, read_topic)
    write_table(data, target.bootstrap_servers, read_topic, count)
    for number in range(-1, rounds):
        for way in chosen[number % len(chosen) :] + chosen[: number % len(chosen)]:
            figures = _measure_once(target, way, read_topic, int(count * way.share))
            _say(number, way, figures)
            if number >= 0:
                found[way.name].append(figures)
    return [{"name": way.name, "phase": way.phase, **_medians(found[way.name])} for way in chosen]


def _measure_once(target: Target, way: Way, read_topic: str, count: int) -> dict[str, float]:
    topic = read_topic
    if way.phase == WRITE:
        topic = f"write-{uuid.uuid4().hex[:8]}"
        _create(target, topic)
    broker_before, client_before, machine_before = cpu_seconds(target.pid), time.process_time(), machine.busy_seconds()
    started = time.perf_counter()
    seen = way.run(target.bootstrap_servers, topic, count)
    seconds = time.perf_counter() - started
    client_s, broker_s = time.process_time() - client_before, cpu_seconds(target.pid) - broker_before
    figures = {
        "records_per_s": seen / seconds,
        "seconds": seconds,
        "client_cpu_s_per_million": client_s / seen * 1e6,
        "broker_cpu_s_per_million": broker_s / seen * 1e6,
        "other_cores": max(0.0, machine.busy_seconds() - machine_before - client_s - broker_s) / seconds,
    }
    if way.phase == WRITE:
        with tailrace.Admin(target.bootstrap_servers) as admin:
            end = admin.list_offsets(topic, {0: -1})[0].offset
            if end != count:
                raise RuntimeError(f"{way.name} left {end} records instead of {count}")
            admin.delete_topics([topic])
    return figures


def _create(target: Target, topic: str) -> None:
    with tailrace.Admin(target.bootstrap_servers) as admin:
        outcome = admin.create_topics([tailrace.NewTopic(topic, 1, 1)])[topic]
    if isinstance(outcome, Exception):
        raise outcome


def _medians(rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {
        name: {
            "median": round(statistics.median(figures[name] for figures in rounds), 3),
            "rounds": [round(figures[name], 3) for figures in rounds],
        }
        for name in rounds[0]
    }


def _say(number: int, way: Way, figures: dict[str, float]) -> None:
    label = "warm-up" if number < 0 else f"round {number + 1}"
    print(
        f"{label:8} {way.phase:6}{way.name:34} {figures['records_per_s']:12,.0f} records/s"
        f"  client {figures['client_cpu_s_per_million']:6.3f}  broker {figures['broker_cpu_s_per_million']:6.3f}"
        " CPU s a million",
        flush=True,
    )


def page(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = result["results"]
    base = {row["phase"]: row["records_per_s"]["median"] for row in rows if row["name"].startswith("confluent")}
    lines = "".join(
        f"| {row['phase']} | {row['name']} | {row['records_per_s']['median']:,.0f}"
        f" | {row['records_per_s']['median'] / base[row['phase']]:.1f}"
        f" | {row['client_cpu_s_per_million']['median']:.3f} | {row['broker_cpu_s_per_million']['median']:.3f}"
        f" | {row['other_cores']['median']:.1f} |\n"
        for row in rows
    )
    return f"""# The Python client

Written by `{result["command"]}`; the figures of every round are in `client.json`.

{result["records"]:,} records of {RECORD_BYTES} random bytes without keys, one partition, acks=all, linger 5 ms,
batches of up to {BATCH_SIZE_BYTES:,} bytes, no compression, on {result["broker"]}, with broker and client on the
same machine. All ways take turns in {result["rounds"]} rounds after one that is not counted. Medians. Tailrace's own
ways that make an object for each record are given a tenth of the records.

The last column tells how many cores everything but client and broker kept busy: where that is not near zero, others
had the machine too. A way that keeps two processes busy then loses more than one that waits for a single thread, and
CPU seconds say more than records a second.

| | way | records/s | times confluent-kafka | client CPU s a million | broker CPU s a million | other cores |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
{lines}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5_000_000, help="records of 100 bytes (default 5000000)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (default 3)")
    parser.add_argument("--broker", choices=list(MAKERS), default="tailrace", help="the broker to use")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka", "pyarrow")
    try:
        with MAKERS[arguments.broker]() as target:
            results = measure(target, arguments.records, arguments.rounds)
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    result = {
        "command": machine.command_line(
            "bench.client", records=arguments.records, rounds=arguments.rounds, broker=arguments.broker
        ),
        "broker": {"tailrace": "a Tailrace broker", "kafka": "Apache Kafka"}[arguments.broker],
        "records": arguments.records,
        "rounds": arguments.rounds,
        "conditions": conditions,
        "results": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "client.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "client.md").write_text(page(result))
    print(f"written: client.json, client.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
