"""Transactional produce compared with idempotent produce, by the size of a transaction.

    python -m bench.transaction [--seconds 1] [--rounds 5] [--broker tailrace|kafka]

For each size of a transaction, three ways of writing take turns in each round, on one broker, so that a change of the
machine's speed affects all of them: an idempotent producer that never waits, one that waits for its records as often as
the transactional one commits, and transactions. The report has the medians of the rounds and of their ratios, after a
warm-up round that is not counted. Writes `docs/benchmarks/transaction.json` and `.md`, and keeps the figures of the
other broker.
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

import tailrace
from bench import machine
from bench.broker import TailraceBroker, Target, cpu_seconds, kafka_broker
from bench.cache import CHECKOUT, Unavailable

MAKERS: dict[str, Callable[[], Target]] = {"tailrace": TailraceBroker, "kafka": kafka_broker}
TITLES = {"tailrace": "Tailrace", "kafka": "Apache Kafka"}
STALL_TIMEOUT_S = 60.0
TOPIC_CONFIG = {"max.message.bytes": "4000000", "file.delete.delay.ms": "1"}
"""Old data is deleted at once: with some gigabytes unflushed, the kernel makes every write eight times as expensive."""
GOAL = 0.8
"""The targeted ratio of transactional to idempotent throughput."""

FREE = "idempotent"
FLUSHED = "idempotent, flushed as often"
TRANSACTIONAL = "transactional"
WAYS = (FREE, FLUSHED, TRANSACTIONAL)


@dataclass(frozen=True)
class Size:
    """The records in one transaction, and the size of the producer's batches."""

    record_count: int
    record_bytes: int
    batch_bytes: int = 1_000_000

    @property
    def total_bytes(self) -> int:
        return self.record_count * self.record_bytes


SIZES = (
    Size(100, 150, 16_384),  # one batch of 16 KB
    Size(100, 16_000, 16_384),  # a hundred of them
    Size(100, 16_000),
    Size(1_000, 1_000, 131_072),
    Size(1_000, 1_000),
    Size(10_000, 1_000),
)


class TailraceWriter:
    """Tailrace's own producer."""

    name = "tailrace"

    def __init__(self, bootstrap: str, topic: str, batch_bytes: int, *, is_transactional: bool) -> None:
        settings: dict[str, Any] = {"linger_ms": 5, "batch_size": batch_bytes, "max_request_size": 4_000_000}
        if is_transactional:
            settings["transactional_id"] = topic
        self._producer = tailrace.Producer(bootstrap, **settings)
        self._topic = topic

    def write(self, values: list[bytes]) -> None:
        send, topic = self._producer.send, self._topic
        for value in values:
            send(topic, value)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def flush(self) -> None:
        self._producer.flush(STALL_TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class ConfluentWriter:
    """The producer of confluent-kafka, whose transactions are of version 1."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str, topic: str, batch_bytes: int, *, is_transactional: bool) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "message.max.bytes": 4_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.kbytes": 32_768,
        }
        if is_transactional:
            settings["transactional.id"] = topic
        self._producer = confluent_kafka.Producer(settings)
        self._topic = topic
        if is_transactional:
            self._producer.init_transactions(STALL_TIMEOUT_S)

    def write(self, values: list[bytes]) -> None:
        produce, topic = self._producer.produce, self._topic
        for value in values:
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.poll(0)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(STALL_TIMEOUT_S)

    def flush(self) -> None:
        if self._producer.flush(STALL_TIMEOUT_S):
            raise RuntimeError("confluent-kafka did not deliver all records")

    def close(self) -> None:
        self.flush()


Writer = TailraceWriter | ConfluentWriter
CLIENTS: tuple[type[TailraceWriter] | type[ConfluentWriter], ...] = (TailraceWriter, ConfluentWriter)


def run(writer: Writer, way: str, values: list[bytes], seconds: float) -> tuple[int, float]:
    """Write for `seconds`; return how often all values were written, and the time until all were acknowledged."""
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < seconds:
        if way == TRANSACTIONAL:
            writer.begin()
        writer.write(values)
        if way == TRANSACTIONAL:
            writer.commit()
        elif way == FLUSHED:
            writer.flush()
        count += 1
    writer.flush()
    return count, time.perf_counter() - started


def measure_once(target: Target, client: type[Any], size: Size, way: str, seconds: float) -> dict[str, float]:
    """Measure one way of one client, with its own topic."""
    topic = f"transaction-{uuid.uuid4().hex[:8]}"
    with tailrace.Admin(target.bootstrap_servers) as admin:
        outcome = admin.create_topics([tailrace.NewTopic(topic, 1, 1, TOPIC_CONFIG)])[topic]
        if isinstance(outcome, tailrace.ApiError):
            raise outcome
        values = [os.urandom(size.record_bytes) for _ in range(size.record_count)]
        writer = client(target.bootstrap_servers, topic, size.batch_bytes, is_transactional=way == TRANSACTIONAL)
        run(writer, way, values, 0.001)  # opens connections and finds the coordinator
        before = (cpu_seconds(target.pid), time.process_time(), machine.busy_seconds())
        count, elapsed_s = run(writer, way, values, seconds)
        broker_s, client_s, all_s = (
            cpu_seconds(target.pid) - before[0],
            time.process_time() - before[1],
            machine.busy_seconds() - before[2],
        )
        writer.close()
        admin.delete_topics([topic])
    megabytes = count * size.total_bytes / 1e6
    return {
        "mb_per_s": megabytes / elapsed_s,
        "transactions_per_s": count / elapsed_s,
        "ms": elapsed_s / count * 1e3,
        "broker_cpu_ms": broker_s / count * 1e3,
        "client_cpu_ms": client_s / count * 1e3,
        "other_cores": max(0.0, all_s - broker_s - client_s) / elapsed_s,
    }


def measure(target: Target, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Measure all clients and sizes; return the rounds, with medians of figures and ratios."""
    found = []
    for client in CLIENTS:
        for size in SIZES:
            taken: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for number in range(-1, rounds):
                for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                    figures = measure_once(target, client, size, way, seconds if number >= 0 else seconds / 5)
                    print(
                        f"{client.name} {size} {way}: {figures['mb_per_s']:.1f} MB/s, {figures['ms']:.2f} ms",
                        flush=True,
                    )
                    if number >= 0:
                        taken[way].append(figures)
            found.append(
                {
                    "client": client.name,
                    "record_count": size.record_count,
                    "record_bytes": size.record_bytes,
                    "batch_bytes": size.batch_bytes,
                    "ratios": {way: _ratio(taken, way) for way in (FREE, FLUSHED)},
                    "ways": {way: _medians(taken[way]) for way in WAYS},
                }
            )
    return found


def _ratio(taken: dict[str, list[dict[str, float]]], other: str) -> dict[str, Any]:
    """Return the ratio of transactional to another way, round by round."""
    pairs = zip(taken[TRANSACTIONAL], taken[other], strict=True)
    ratios = [mine["mb_per_s"] / theirs["mb_per_s"] for mine, theirs in pairs]
    return {"median": statistics.median(ratios), "rounds": ratios}


def _medians(rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {
        name: {"median": statistics.median(figures[name] for figures in rounds), "rounds": [f[name] for f in rounds]}
        for name in rounds[0]
    }


def write_page(broker: str, run: dict[str, Any], folder: Path) -> None:
    """Write transaction.json and transaction.md, keeping the figures of another broker."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "transaction.json"
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs[broker] = run
    path.write_text(json.dumps(runs, indent=2) + "\n")
    (folder / "transaction.md").write_text(_page(runs))


def _page(runs: dict[str, Any]) -> str:
    return f"""# Transactions

One producer writes records of random bytes to one partition of a broker on the same machine, with
acks=all, linger 5 ms and no compression, in three ways: idempotent and never waiting, idempotent and
waiting for all acknowledgements as often as the other commits, and in transactions. All take turns in
each round, after one that is not counted. Medians; ratios are those of each round, and the figures of every
round are in the `.json` beside this. Where the last column is not near zero, others had the machine, too, and
CPU times say more than speeds. Transactions of Tailrace's client are of the second generation (KIP-890), those
of confluent-kafka of the first.

{_goal(runs["tailrace"]["results"])}
{"".join(_broker_part(name, runs[name]) for name in MAKERS if name in runs)}"""


def _goal(rows: list[dict[str, Any]]) -> str:
    """Return where Tailrace's producer reaches the target, and why not elsewhere."""
    by_size = [(row, row["ratios"][FREE]["median"]) for row in rows if row["client"] == TailraceWriter.name]
    reached = [f"{ratio:.2f} with {_size(row)}" for row, ratio in by_size if ratio >= GOAL]
    missed = [f"{ratio:.2f} with {_size(row)}" for row, ratio in by_size if ratio < GOAL]
    return f"""The goal is {GOAL} of the idempotent producer. Reached: {"; ".join(reached) or "nowhere"}.
Missed: {"; ".join(missed) or "nowhere"}.
A producer that never waits has the next records under way while the broker writes; one that commits
does nothing between its last record and the answer to its commit, and a small transaction is all waiting:
its records, the decision, a marker in each partition and the end are five appends and two round trips where
the other has one append and one round trip, and waits for neither.
"""


def _size(row: dict[str, Any]) -> str:
    return f"{row['record_count']:,} records of {row['record_bytes']:,} B in batches of {row['batch_bytes']:,}"


def _broker_part(name: str, run: dict[str, Any]) -> str:
    head = "".join(f"| {heading} " for heading in HEADINGS) + "|\n| --- |" + " ---: |" * (len(HEADINGS) - 1)
    return f"""
## {TITLES[name]}

`{run["command"]}`: {run["rounds"]} rounds of {run["seconds"]:g} s.

{head}
{"".join(_row(row) for row in run["results"])}
{machine.table(run["conditions"])}"""


HEADINGS = (
    "client",
    "records in a transaction",
    "bytes of a record",
    "of a batch",
    "idempotent MB/s",
    "flushed MB/s",
    "transactional MB/s",
    "of idempotent",
    "of flushed",
    "CPU, times idempotent",
    "ms a transaction",
    "broker CPU ms",
    "client CPU ms",
    "other cores",
)


def _row(row: dict[str, Any]) -> str:
    speeds = " | ".join(f"{row['ways'][way]['mb_per_s']['median']:,.1f}" for way in WAYS)
    ratios = " | ".join(f"{row['ratios'][way]['median']:.2f}" for way in (FREE, FLUSHED))
    mine = row["ways"][TRANSACTIONAL]
    cpu = _cpu_ms(mine) / _cpu_ms(row["ways"][FREE])
    costs = " | ".join(
        f"{mine[name]['median']:.2f}" for name in ("ms", "broker_cpu_ms", "client_cpu_ms", "other_cores")
    )
    return (
        f"| {row['client']} | {row['record_count']:,} | {row['record_bytes']:,} | {row['batch_bytes']:,}"
        f" | {speeds} | {ratios} | {cpu:.2f} | {costs} |\n"
    )


def _cpu_ms(figures: dict[str, Any]) -> float:
    """Return the CPU time of both sides for as many records as a transaction has."""
    return float(figures["broker_cpu_ms"]["median"] + figures["client_cpu_ms"]["median"])


def main() -> int:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m bench.transaction", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each way in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--broker", choices=tuple(MAKERS), default="tailrace")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka")
    try:
        with MAKERS[arguments.broker]() as target:
            results = measure(target, arguments.seconds, arguments.rounds)
    except Unavailable as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    options = {"seconds": arguments.seconds, "rounds": arguments.rounds, "broker": arguments.broker}
    command = machine.command_line("bench.transaction", **options)
    run_found = {"command": command, **options, "results": results, "conditions": conditions}
    write_page(arguments.broker, run_found, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
