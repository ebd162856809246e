"""Idempotent producers that send numbered records without a pause, and what was acknowledged to them."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer

import tailrace
from tailrace.base.sentinel import NO_OFFSET

RATE_PER_S = 600  # a load, not a flood: broker and producers share their processors
KEY_COUNT = 40
DELIVERY_TIMEOUT_MS = 120_000

Place = tuple[str, int]  # topic and partition


class Numbered(NamedTuple):
    """Which record this is: the how-manieth of a producer in a partition, or of a key."""

    producer: int
    number: int


def encode(record: Numbered) -> bytes:
    """Its value, which hardly compresses and can be made again to compare it."""
    head = b"%d %d " % record
    return head + hashlib.sha256(head).digest() * 5


def decode(value: bytes) -> Numbered:
    """The record of a value; raises ValueError where a byte of it is wrong."""
    producer, number, _ = value.split(b" ", 2)
    record = Numbered(int(producer), int(number))
    if encode(record) != value:
        raise ValueError(f"a value of {record} is damaged")
    return record


class Load:
    """One producer in a thread. A subclass knows a client."""

    def __init__(self, producer: int, places: list[Place], compacted: str) -> None:
        self.producer = producer
        self.news: deque[tuple[Place, int | None, Numbered]] = deque()  # what was acknowledged, and at which offset
        self.newest: dict[bytes, int] = {}  # the largest acknowledged number of each key
        self.failures: list[str] = []
        self.count = 0
        self._numbers = dict.fromkeys(places, 0)
        self._key_numbers = dict.fromkeys((b"%d key %d" % (producer, key) for key in range(KEY_COUNT)), 0)
        self._compacted = compacted
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_until_refused, name=f"load-{producer}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more and wait for what was sent."""
        self._stopping.set()
        self._thread.join()
        self.finish()

    def abandon(self) -> None:
        """Send nothing more and forget what was sent."""
        self._stopping.set()
        self.drop()
        self._thread.join()

    def send(self, place: Place, key: bytes | None, record: Numbered) -> None:
        """Give a record to the client, waiting for room in it."""
        raise NotImplementedError

    def drop(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def _run_until_refused(self) -> None:
        try:
            self._run()
        except Exception as error:
            # A client that gave up for good, as librdkafka does where the broker forgot what it had acknowledged.
            self.failures.append(repr(error))

    def _run(self) -> None:
        started = time.monotonic()
        sent = 0
        keys = list(self._key_numbers)
        while not self._stopping.is_set():
            for place in self._numbers:
                self.send(place, None, Numbered(self.producer, self._numbers[place]))
                self._numbers[place] += 1
                sent += 1
            key = keys[sent % len(keys)]
            self.send((self._compacted, 0), key, Numbered(self.producer, self._key_numbers[key]))
            self._key_numbers[key] += 1
            ahead_s = sent / RATE_PER_S - (time.monotonic() - started)
            if ahead_s > 0:
                self._stopping.wait(ahead_s)

    def note(self, place: Place, key: bytes | None, offset: int | None, record: Numbered) -> None:
        """Take down an acknowledgement.

        A producer that lost the answer for a batch learns without an offset that it was written: librdkafka when a
        later batch is acknowledged, ours when the broker no longer knows where the batch is.
        """
        self.count += 1
        if key is None:
            self.news.append((place, offset, record))
        else:
            self.newest[key] = max(self.newest.get(key, -1), record.number)


class ConfluentLoad(Load):
    """Through librdkafka."""

    def __init__(self, address: str, producer: int, places: list[Place], compacted: str, codec: str) -> None:
        super().__init__(producer, places, compacted)
        quiet = logging.getLogger("librdkafka")
        quiet.setLevel(logging.CRITICAL)  # it tells of every lost connection, of which there are many here
        options: dict[str, Any] = {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "batch.num.messages": 50,
            "queue.buffering.max.messages": 1000,
            "compression.type": codec,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
        self._client = ConfluentProducer(options, logger=quiet)

    def send(self, place: Place, key: bytes | None, record: Numbered) -> None:
        topic, partition = place
        while True:
            try:
                self._client.produce(topic, encode(record), key, partition, on_delivery=self._told(place, key, record))
                self._client.poll(0)
                return
            except BufferError:
                self._client.poll(0.01)

    def _told(self, place: Place, key: bytes | None, record: Numbered) -> Callable[[KafkaError | None, Message], None]:
        def tell(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"{place} {record}: {error}")
            else:
                self.note(place, key, message.offset(), record)

        return tell

    def drop(self) -> None:
        self._client.purge()

    def finish(self) -> None:
        if self._client.flush(DELIVERY_TIMEOUT_MS / 1000):
            self.failures.append("records are left that were never acknowledged")


class TailraceLoad(Load):
    """Through our own client."""

    def __init__(self, address: str, producer: int, places: list[Place], compacted: str, codec: str) -> None:
        super().__init__(producer, places, compacted)
        self._client = tailrace.Producer(
            address,
            linger_ms=2,
            buffer_memory=500_000,
            compression_type=codec,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=DELIVERY_TIMEOUT_MS // 2,
            max_block_ms=DELIVERY_TIMEOUT_MS,
        )

    def send(self, place: Place, key: bytes | None, record: Numbered) -> None:
        topic, partition = place
        future = self._client.send(topic, encode(record), key, partition=partition)
        future.add_done_callback(lambda done: self._tell(place, key, record, done))

    def _tell(self, place: Place, key: bytes | None, record: Numbered, done: Any) -> None:
        error = done.exception()
        if error is not None:
            self.failures.append(f"{place} {record}: {error!r}")
        else:
            offset = done.result().offset
            self.note(place, key, None if offset == NO_OFFSET else offset, record)

    def drop(self) -> None:
        self._client.close(0)

    def finish(self) -> None:
        self._client.close(DELIVERY_TIMEOUT_MS / 1000)
