"""The publisher of website activity for the demo, in a thread, with counts of acknowledged events."""

import threading
import time
from collections import Counter
from concurrent.futures import Future
from typing import TYPE_CHECKING

from tailrace.cli.demo.activity import TOPICS, Activity
from tailrace.cli.demo.scoreboard import Rate
from tailrace.client.error import ClientError
from tailrace.client.produce.producer import Producer
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError

if TYPE_CHECKING:
    from tailrace.client.produce.delivery import RecordMetadata

EVENTS_PER_SECOND = 1_000
# While Spark starts, which may take a minute, so that the first batches, in which Spark compiles code, are small.
EVENTS_PER_SECOND_AT_FIRST = 100
_TICK_S = 0.1
_FLUSH_TIMEOUT_S = 120.0  # the producer's own delivery timeout


class Publisher:
    """Sends events at an even rate until it is stopped, and records the end offsets of acknowledged events."""

    def __init__(self, address: str, seed: int, events_per_second: int = EVENTS_PER_SECOND) -> None:
        self.events_per_second = events_per_second  # can be changed at any time
        # All keys exist from the start, because another thread sums the counts while this one changes them.
        self.acknowledged: Counter[str] = Counter(dict.fromkeys(TOPICS, 0))
        self.ends: dict[TopicPartition, int] = {}  # the offset after the last acknowledged event
        self.late_count = 0
        self.duplicate_count = 0
        self.problems: list[str] = []
        self.rate = Rate()
        self._activity = Activity(seed)
        self._producer = Producer(address, client_id="tailrace-demo", compression_type="zstd", linger_ms=20)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailrace-demo-publisher", daemon=True)

    def start(self) -> None:
        """Start publishing."""
        self._thread.start()

    def publish_past(self, seconds: int) -> None:
        """Publish the events of the last seconds, so that windows are complete as soon as the flows start."""
        now_ms = time.time_ns() // 1_000_000
        for ago_s in range(seconds, 0, -1):
            self._send(self.events_per_second, now_ms - 1000 * ago_s)

    def stop(self) -> None:
        """Stop publishing, and return when all events are acknowledged. Idempotent."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._producer.close(_FLUSH_TIMEOUT_S)

    @property
    def total(self) -> int:
        """How many events have been acknowledged."""
        return self.acknowledged.total()

    def _run(self) -> None:
        last_s, due = time.monotonic(), 0.0
        try:
            while not self._stopping.wait(_TICK_S):
                now_s = time.monotonic()
                due += (now_s - last_s) * self.events_per_second
                last_s = now_s
                self._send(int(due), time.time_ns() // 1_000_000)
                due -= int(due)
        except (ApiError, ClientError) as error:
            self.problems.append(f"publishing ended: {error}")

    def _send(self, count: int, now_ms: int) -> None:
        before = None
        for event in self._activity.events(now_ms, count):
            self.late_count += event.timestamp_ms < now_ms
            self.duplicate_count += event is before
            before = event
            self._producer.send(
                event.topic,
                event.value,
                event.key,
                event.headers,
                timestamp_ms=event.timestamp_ms,
                on_delivery=self._delivered,
            )

    def _delivered(self, future: "Future[RecordMetadata]") -> None:
        error = future.exception()
        if error is not None:
            self.problems.append(f"an event was refused: {error}")
            return
        metadata = future.result()
        target = TopicPartition(metadata.topic, metadata.partition)
        self.acknowledged[metadata.topic] += 1
        self.ends[target] = max(self.ends.get(target, 0), metadata.offset + 1)
        self.rate.add(1)
