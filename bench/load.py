"""A produce and consume load with confluent-kafka at full speed, and its cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.broker import Target, cpu_seconds
from bench.machine import busy_seconds

PARTITION = 0
CHUNK_COUNT = 2_000
IN_FLIGHT_MAX = 200_000
STALL_TIMEOUT_S = 60.0
ERRORS_ONLY = 3

PRODUCER_SETTINGS = {
    "acks": "all",
    "linger.ms": 5,
    "batch.num.messages": 100_000,
    "batch.size": 1_000_000,
    "compression.type": "none",
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}
CONSUMER_SETTINGS = {
    "group.id": "unused",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 262_144,
    # Without this, a full local queue would stop fetching for a whole second.
    "fetch.queue.backoff.ms": 1,
}


@dataclass(frozen=True)
class Measurement:
    """The figures of one phase of one round."""

    record_count: int
    byte_count: int
    seconds: float
    broker_cpu_s: float
    client_cpu_s: float
    machine_cpu_s: float

    @property
    def other_cores(self) -> float:
        """The number of cores that everything but broker and client kept busy: a measure of disturbance."""
        return max(0.0, self.machine_cpu_s - self.broker_cpu_s - self.client_cpu_s) / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Payload megabytes per second."""
        return self.byte_count / self.seconds / 1e6

    @property
    def records_per_s(self) -> float:
        """Records per second."""
        return self.record_count / self.seconds

    @property
    def broker_cpu_s_per_gb(self) -> float:
        """The broker's CPU seconds for each gigabyte of payload."""
        return self.broker_cpu_s / self.byte_count * 1e9

    @property
    def client_cpu_s_per_gb(self) -> float:
        """The client's CPU seconds for each gigabyte of payload."""
        return self.client_cpu_s / self.byte_count * 1e9


def run_round(
    target: Target,
    topic: str,
    record_bytes: int,
    byte_limit: int,
    time_limit_s: float,
    client: Mapping[str, Any] | None = None,
) -> tuple[Measurement, Measurement]:
    """Produce to a new topic, read all of it back, and delete it; `client` has more settings of the clients."""
    more = dict(client or {})
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers, "log_level": ERRORS_ONLY, **more})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    produced = _measured(
        target, record_bytes, lambda: produce(target, topic, record_bytes, byte_limit, time_limit_s, client=more)
    )
    consumed = _measured(target, record_bytes, lambda: consume(target, topic, produced.record_count, client=more))
    admin.delete_topics([topic])[topic].result(30)
    return produced, consumed


def _measured(target: Target, record_bytes: int, work: Callable[[], int]) -> Measurement:
    broker_before, client_before, machine_before = cpu_seconds(target.pid), time.process_time(), busy_seconds()
    started = time.perf_counter()
    count = work()
    seconds = time.perf_counter() - started
    return Measurement(
        record_count=count,
        byte_count=count * record_bytes,
        seconds=seconds,
        broker_cpu_s=cpu_seconds(target.pid) - broker_before,
        client_cpu_s=time.process_time() - client_before,
        machine_cpu_s=busy_seconds() - machine_before,
    )


class Served(Protocol):
    """A broker that clients can connect to."""

    @property
    def bootstrap_servers(self) -> str: ...


def produce(
    target: Served,
    topic: str,
    record_bytes: int,
    byte_limit: int,
    time_limit_s: float,
    acks: str = "all",
    client: Mapping[str, Any] | None = None,
) -> int:
    """Produce random records up to a number of bytes or a time limit. Return the number of records."""
    failures: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    # Only failures call back: a Python call for each record would measure Python.
    settings = {**PRODUCER_SETTINGS, "bootstrap.servers": target.bootstrap_servers, "delivery.report.only.error": True}
    producer = Producer({**settings, "acks": acks, "on_delivery": delivered, **(client or {})})
    # Random values, so that compression has no effect.
    values = [os.urandom(record_bytes) for _ in range(CHUNK_COUNT)]
    count, deadline = 0, time.perf_counter() + time_limit_s
    while count * record_bytes < byte_limit and time.perf_counter() < deadline:
        while len(producer) > IN_FLIGHT_MAX:
            producer.poll(0.001)
        # The library marks failed messages in these dictionaries, so each chunk needs its own.
        count += producer.produce_batch(topic, [{"value": value} for value in values], partition=PARTITION)
        producer.poll(0)
    left = producer.flush(STALL_TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{left} records were not acknowledged, {len(failures)} failed: {failures[:1]}")
    return count


def consume(target: Served, topic: str, wanted: int, client: Mapping[str, Any] | None = None) -> int:
    """Read `wanted` records from the start. Return the number of records read."""
    consumer = Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": target.bootstrap_servers, **(client or {})})
    consumer.assign([TopicPartition(topic, PARTITION, 0)])
    count, deadline = 0, time.perf_counter() + STALL_TIMEOUT_S
    while count < wanted:
        messages = consumer.consume(min(10_000, wanted - count), timeout=0.1)
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
        count += len(messages)
        if time.perf_counter() > deadline:
            raise RuntimeError(f"only {count} of {wanted} records arrived within {STALL_TIMEOUT_S:.0f} s")
    consumer.close()
    return count
