"""How exactly a quota holds, and what other clients notice of clients that are over theirs.

    python -m bench.quota [--seconds 60] [--rate 5000000]

Three producers share a client id with `producer_byte_rate`, and two consumers share one with `consumer_byte_rate`. All
of them are as fast as they can be, with librdkafka, each in its own process. A neighbour without a quota produces a
small record a hundred times a second and measures how long each reply takes: alone, next to the limited clients, and
next to the same clients without a quota. Writes `docs/benchmarks/quota.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT
from bench.partitions import Broker

TOPIC, SMALL_TOPIC = "load", "neighbour"
PRODUCER_COUNT, CONSUMER_COUNT = 3, 2
RECORD_BYTES = 10_000
PRELOADED_COUNT = 6_000
NEIGHBOUR_INTERVAL_S = 0.01
NEIGHBOUR_BYTES = 100
QUIET_S = 20.0
WARM_UP_S = 3.0


# --- the clients, each in its own process


def _produce(bootstrap: str, client_id: str, seconds: float, results: Any) -> None:
    """Produce as fast as possible, and report the acknowledged bytes of values."""
    from confluent_kafka import Producer

    acknowledged_bytes = 0
    throttled_s = 0.0

    def delivered(error: object, _message: object) -> None:
        nonlocal acknowledged_bytes
        if error is None and time.monotonic() < deadline:
            acknowledged_bytes += RECORD_BYTES

    def throttled(event: Any) -> None:
        nonlocal throttled_s
        throttled_s += event.throttle_time

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": 200_000,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 20_000,
            "throttle_cb": throttled,
        }
    )
    value = b"x" * RECORD_BYTES
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            producer.produce(TOPIC, value, callback=delivered)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    results.put(("produced", acknowledged_bytes, throttled_s))
    producer.purge()
    producer.flush(5)


def _consume(bootstrap: str, client_id: str, seconds: float, results: Any) -> None:
    """Consume the first partition as fast as possible, again and again, and report the bytes of values."""
    from confluent_kafka import Consumer, TopicPartition

    throttled_s = 0.0

    def throttled(event: Any) -> None:
        nonlocal throttled_s
        throttled_s += event.throttle_time

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 2_000,
            "throttle_cb": throttled,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    consumed_bytes = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        messages = consumer.consume(200, 0.1)
        consumed_bytes += sum(len(message.value() or b"") for message in messages if message.error() is None)
        if messages and (messages[-1].offset() or 0) >= PRELOADED_COUNT - 1:
            consumer.seek(TopicPartition(TOPIC, 1, 0))
    results.put(("consumed", consumed_bytes, throttled_s))
    consumer.close()


def _neighbour(bootstrap: str, seconds: float, results: Any) -> None:
    """Produce small records at a fixed rate, and report how long the replies took."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "neighbour", "linger.ms": 0, "acks": 1})
    waits_ms: list[float] = []
    deadline = time.monotonic() + seconds
    turn = time.monotonic()
    while turn < deadline:
        began = time.perf_counter()
        producer.produce(SMALL_TOPIC, b"x" * NEIGHBOUR_BYTES)
        producer.flush(30)
        waits_ms.append((time.perf_counter() - began) * 1000)
        turn += NEIGHBOUR_INTERVAL_S
        time.sleep(max(0.0, turn - time.monotonic()))
    results.put(("waits", waits_ms, 0.0))


# --- the run


def _set_up(bootstrap: str, rate: float) -> None:
    from confluent_kafka import Producer

    import tailrace

    with tailrace.Admin(bootstrap) as admin:
        admin.create_topics([tailrace.NewTopic(TOPIC, 2), tailrace.NewTopic(SMALL_TOPIC, 1)])
        changes = {
            tailrace.QuotaEntity(client_id="limited-producer"): {"producer_byte_rate": rate},
            tailrace.QuotaEntity(client_id="limited-consumer"): {"consumer_byte_rate": rate},
        }
        for error in admin.alter_client_quotas(changes).values():
            if error is not None:
                raise error
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 500_000, "linger.ms": 5})
    for _ in range(PRELOADED_COUNT):
        producer.produce(TOPIC, b"x" * RECORD_BYTES, partition=1)
        producer.poll(0)
        while len(producer) > 1000:
            producer.poll(0.01)
    producer.flush(60)


def _run(broker: Broker, way: str, seconds: float) -> dict[str, Any]:
    """Run the clients of one phase, and return what they report."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    clients = [context.Process(target=_neighbour, args=(broker.address, seconds, results))]
    if way != "alone":
        for kind, target, count in (("producer", _produce, PRODUCER_COUNT), ("consumer", _consume, CONSUMER_COUNT)):
            arguments = (broker.address, f"{way}-{kind}", seconds, results)
            clients += [context.Process(target=target, args=arguments) for _ in range(count)]
    before_s = cpu_seconds(broker.pid)
    for client in clients:
        client.start()
    reports = [results.get(timeout=seconds + 120) for _ in clients]
    cpu_s = cpu_seconds(broker.pid) - before_s
    for client in clients:
        client.join(60)
    waits = sorted(next(report[1] for report in reports if report[0] == "waits"))
    return {
        "way": way,
        "seconds": seconds,
        "produced_bytes_per_s": round(sum(report[1] for report in reports if report[0] == "produced") / seconds),
        "consumed_bytes_per_s": round(sum(report[1] for report in reports if report[0] == "consumed") / seconds),
        "wait_ms_median": round(waits[len(waits) // 2], 2),
        "wait_ms_p99": round(waits[int(len(waits) * 0.99)], 2),
        "wait_count": len(waits),
        "broker_cpu_share": round(cpu_s / seconds, 3),
    }


def measure(seconds: float, rate: float) -> list[dict[str, Any]]:
    """Measure all ways on one broker."""
    folder = Path(tempfile.mkdtemp(prefix="tailrace-quota-"))
    broker = Broker(folder)
    try:
        _set_up(broker.address, rate)
        _run(broker, "alone", WARM_UP_S)
        results = []
        for way, time_s in (("alone", QUIET_S), ("limited", seconds), ("unlimited", QUIET_S), ("alone", QUIET_S)):
            results.append(_run(broker, way, time_s))
            print(json.dumps(results[-1]), flush=True)
    finally:
        broker.end(signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)
    return results


_NAMES = {"alone": "alone", "limited": "next to limited clients", "unlimited": "next to the same without a quota"}


def _page(result: dict[str, Any]) -> str:
    rate = result["rate"]
    rows = "".join(
        f"| {_NAMES[row['way']]} | {row['seconds']:.0f} s"
        f" | {row['wait_ms_median']:.2f} ms | {row['wait_ms_p99']:.2f} ms"
        f" | {row['produced_bytes_per_s'] / 1e6:.2f} MB/s | {row['consumed_bytes_per_s'] / 1e6:.2f} MB/s"
        f" | {row['broker_cpu_share']:.0%} |\n"
        for row in result["results"]
    )
    limited = next(row for row in result["results"] if row["way"] == "limited")
    produced, consumed = (limited[f"{what}_bytes_per_s"] / rate - 1 for what in ("produced", "consumed"))
    return f"""# Quotas

Written by `{result["command"]}`; the figures are in `quota.json`.

{PRODUCER_COUNT} producers share a client id with a `producer_byte_rate` of {rate / 1e6:g} MB/s, and {CONSUMER_COUNT}
consumers share one with a `consumer_byte_rate` of the same. All are as fast as they can be, with librdkafka, each in
its own process. Over {limited["seconds"]:.0f} seconds the producers were {produced:+.1%} off their rate, and the
consumers {consumed:+.1%}. The bytes are those of the values. The quota counts whole requests and replies, which are a
little larger, and allows what one second saves up.

A neighbour without a quota produces a record of {NEIGHBOUR_BYTES} bytes a hundred times a second, and waits for each
reply.

| the neighbour | time | its wait, median | its wait, 99 % | produced by the others | consumed | CPU of the broker |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.quota", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="time with limited clients (default 60)")
    parser.add_argument("--rate", type=float, default=5e6, help="bytes per second of each quota (default 5000000)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    result = {
        "command": f"python -m bench.quota --seconds {arguments.seconds:g} --rate {arguments.rate:g}",
        "conditions": machine.conditions("tailrace", "confluent-kafka"),
        "rate": arguments.rate,
        "results": measure(arguments.seconds, arguments.rate),
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "quota.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "quota.md").write_text(_page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
