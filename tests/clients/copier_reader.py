"""Readers of what copiers write: two that look all the time and write history, and one that reads everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import Message
from tests.clients.copier_history import Copy, Event, Place

from tailrace import Admin
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError

WAIT_S = 60.0
LOOK_PAUSE_S = 0.1


def _reader(bootstrap: str, topic: str, partition_count: int, isolation: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers of everything",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partition_count)])
    return consumer


def read_all(bootstrap: str, topic: str, partition_count: int, isolation: str, timeout_s: float) -> Iterator[Place]:
    """Every record that a reader sees, up to the very end: a transaction that never ends makes this fail."""
    ends = _ends(bootstrap, topic, partition_count)
    consumer = _reader(bootstrap, topic, partition_count, isolation)
    deadline = time.monotonic() + timeout_s
    left = {partition for partition, end in ends.items() if end > 0}
    try:
        while left:
            assert time.monotonic() < deadline, f"{topic} ends before {ends} for {isolation}"
            for message in consumer.consume(500, 0.2):
                partition, offset = message.partition() or 0, message.offset() or 0
                error = message.error()
                if error is None:
                    yield Place(partition, offset, message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF and offset >= ends[partition]:
                    left.discard(partition)
    finally:
        consumer.close()


def _ends(bootstrap: str, topic: str, partition_count: int) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # not annotated in confluent-kafka
    asked = {TopicPartition(topic, partition): latest for partition in range(partition_count)}
    return {place.partition: found.result(WAIT_S).offset for place, found in admin.list_offsets(asked).items()}


class _Watch:
    """Does something again and again in a thread, and writes down what it saw."""

    def __init__(self, name: str) -> None:
        self.events: list[Event] = []
        self._name = name
        self._operation = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _note(self, kind: str, begun_ms: float, asked: dict[str, Any], told: dict[str, Any]) -> None:
        self._operation += 1
        head = {"process": self._name, "operation": self._operation, "kind": kind}
        self.events.append({**head, "time_ms": begun_ms, "type": "invoke", **asked})
        self.events.append({**head, "time_ms": time.time() * 1000, "type": "ok", **told})


class TargetWatch(_Watch):
    """Reads what is committed as it comes."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        super().__init__("watch")
        self._topic = topic
        self._seen: set[tuple[int, int]] = set()
        self._consumer = _reader(bootstrap, topic, partition_count, "read_committed")
        self._thread.start()

    @property
    def count(self) -> int:
        """How many records of the source were copied, so far."""
        return len(self._seen)

    def _run(self) -> None:
        while not self._stopping.is_set():
            begun_ms = time.time() * 1000
            messages = [message for message in self._consumer.consume(500, 0.1) if message.error() is None]
            if messages:
                self._note("poll", begun_ms, {}, {"records": [self._record(message) for message in messages]})
        self._consumer.close()

    def _record(self, message: Message) -> list[object]:
        value = message.value() or b""
        copy = Copy.of(value)
        self._seen.add((copy.partition, copy.offset))
        return [f"{self._topic}-{message.partition()}", message.offset(), value.decode()]


class GroupWatch(_Watch):
    """Looks at what the group has committed, and sees nothing that may still be aborted.

    Our own client asks, as librdkafka 2.16 crashes when a coordinator that it asks for a group's offsets is gone.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, partition_count: int) -> None:
        super().__init__("look")
        self._bootstrap = bootstrap
        self._group = group
        self._places = [(topic, partition) for partition in range(partition_count)]
        self._thread.start()

    def _run(self) -> None:
        with Admin(self._bootstrap) as admin:
            while not self._stopping.wait(LOOK_PAUSE_S):
                begun_ms = time.time() * 1000
                try:
                    found = admin.list_group_offsets(self._group, self._places)
                except (ClientError, ApiError):
                    continue
                offsets = dict.fromkeys(self._places, -1) | {place: each.offset for place, each in found.items()}
                named = {f"{topic}-{partition}": offset for (topic, partition), offset in offsets.items()}
                self._note("committed", begun_ms, {"group": self._group}, {"offsets": named})
