"""The clients that `hostile_network` tests, all with the same few methods: ours, confluent-kafka and Java's.

Configs have Kafka's names. A member commits offsets of partition 0 again until the client says that they are committed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.clients import matrix, program
from tests.faults.hostile_judge import NO_OFFSET, Ledger
from tests.unit.client.face import Face

import tailrace

Configs = Mapping[str, Any]
PATIENCE_S = 60.0
ANSWER_S = 10.0
RECONNECTS = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10}
FETCH_WAIT_MS = 10


class Sending(Protocol):
    """A producer that keeps the outcomes of its records, whose values are their numbers."""

    def send(self, topic: str, number: int, size: int, timestamp_ms: int) -> None:
        """Hand over a record."""

    def flush(self) -> None:
        """Wait until each record so far has an outcome."""

    def close(self) -> Ledger:
        """Close the producer."""


class Member(Protocol):
    """A member of a group that has partition 0."""

    def commit(self, offset: int) -> None:
        """Commit until it is acknowledged."""

    def committed(self) -> int:
        """Return the group's offset."""

    def leave(self) -> None:
        """Close the member."""


class Client(Protocol):
    """A client library."""

    name: str
    version: str
    is_ours: bool

    def open(self, configs: Configs) -> Sending:
        """Return a new producer."""

    def join(self, topic: str, configs: Configs) -> Member:
        """Return a new member, when it has read a record."""

    def close(self) -> None:
        """End the client's program, if it has one."""


def value(number: int, size: int = 0) -> bytes:
    """Return the value of a record."""
    return b"%0*d" % (size, number)


# --- ours


class Tailrace:
    """Our client, in one of its faces."""

    version = tailrace.__version__
    is_ours = True

    def __init__(self, name: str, face: str) -> None:
        self.name = name
        self.face = Face(face)

    def open(self, configs: Configs) -> Sending:
        return _TailraceSending(self.face.producer(config=_texts(configs)))

    def join(self, topic: str, configs: Configs) -> Member:
        return _TailraceMember(self.face.consumer(config=_texts(configs)), topic)

    def close(self) -> None:
        pass


def _texts(configs: Configs) -> dict[str, str]:
    return {name: str(found).lower() if isinstance(found, bool) else str(found) for name, found in configs.items()}


class _TailraceSending:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._futures: dict[int, Any] = {}

    def send(self, topic: str, number: int, size: int, timestamp_ms: int) -> None:
        self._futures[number] = self._producer.send(topic, value(number, size), partition=0, timestamp_ms=timestamp_ms)

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> Ledger:
        self.flush()
        ledger = Ledger()
        for number, future in self._futures.items():
            error = future.exception(PATIENCE_S)
            if error is None:
                ledger.acknowledged[number] = future.result(0).offset
            else:
                ledger.failed[number] = str(error)
        self._producer.close()
        return ledger


class _TailraceMember:
    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        consumer.subscribe(topic)
        _until(lambda: consumer.poll(timeout_s=0.1))

    def commit(self, offset: int) -> None:
        self._consumer.commit({(self._topic, 0): offset})

    def committed(self) -> int:
        offset: int = self._consumer.committed()[tailrace.TopicPartition(self._topic, 0)].offset
        return offset

    def leave(self) -> None:
        self._consumer.close()


def _until(look: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:.0f} s"


# --- confluent-kafka


class Confluent:
    """librdkafka below confluent-kafka."""

    name = "confluent"
    version = str(confluent_kafka.__version__)
    is_ours = False

    def open(self, configs: Configs) -> Sending:
        return _ConfluentSending({**configs, **RECONNECTS, "socket.timeout.ms": configs["request.timeout.ms"]})

    def join(self, topic: str, configs: Configs) -> Member:
        """Join with the lowest timeout that librdkafka allows, which is above the one for producers."""
        configs = {name: found for name, found in configs.items() if name != "request.timeout.ms"}
        least_ms = FETCH_WAIT_MS + 1_000
        return _ConfluentMember(
            {**configs, **RECONNECTS, "fetch.wait.max.ms": FETCH_WAIT_MS, "socket.timeout.ms": least_ms}, topic
        )

    def close(self) -> None:
        pass


class _ConfluentSending:
    def __init__(self, configs: Configs) -> None:
        self._producer = Producer({**configs, "logger": None, "log_level": 0})
        self._ledger = Ledger()

    def send(self, topic: str, number: int, size: int, timestamp_ms: int) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                self._ledger.acknowledged[number] = NO_OFFSET if offset is None or offset < 0 else offset
            else:
                self._ledger.failed[number] = str(error)

        try:
            self._producer.produce(
                topic, value(number, size), partition=0, timestamp=timestamp_ms, on_delivery=on_delivery
            )
        except KafkaException as error:  # after a fatal error the producer takes no more records
            self._ledger.failed[number] = str(error)

    def flush(self) -> None:
        self._producer.flush(PATIENCE_S)

    def close(self) -> Ledger:
        self.flush()
        return self._ledger


class _ConfluentMember:
    def __init__(self, configs: Configs, topic: str) -> None:
        self._consumer = Consumer({**configs, "log_level": 0})
        self._topic = topic
        self._consumer.subscribe([topic])
        _until(self._has_read)

    def _has_read(self) -> bool:
        message = self._consumer.poll(0.1)
        return message is not None and message.error() is None

    def commit(self, offset: int) -> None:
        def is_committed() -> bool:
            with suppress(KafkaException):
                self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)
                return True
            return False

        _until(is_committed)

    def committed(self) -> int:
        offsets: list[int] = []

        def is_told() -> bool:
            with suppress(KafkaException):  # librdkafka may wait for a connection that it has given up
                (found,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=ANSWER_S)
                offsets.append(found.offset)
            return bool(offsets)

        _until(is_told)
        return offsets[0]

    def leave(self) -> None:
        self._consumer.close()


# --- Java


class Java:
    """kafka-clients in a program that runs for as long as this object is open."""

    name = "java"
    version = matrix.entry("kafka-clients 4").version
    is_ours = False

    def __init__(self) -> None:
        command, environment = program.java(self.version, "Sender").ready()
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def open(self, configs: Configs) -> Sending:
        self.ask("open", *_words({**configs, **RECONNECTS}))
        return _JavaSending(self)

    def join(self, topic: str, configs: Configs) -> Member:
        self.ask("join", topic, *_words({**configs, **RECONNECTS, "fetch.max.wait.ms": FETCH_WAIT_MS}))
        return _JavaMember(self, topic)

    def tell(self, *words: str) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")

    def read(self) -> list[str]:
        """Read one line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the Java program has ended"
        return line.split()

    def ask(self, *words: str) -> list[str]:
        """Send a command and return the rest of its answer; raises if it is an error."""
        self.tell(*words)
        answer = self.read()
        if answer[0] != words[0]:
            raise JavaError(" ".join(answer))
        return answer[1:]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


class JavaError(Exception):
    """What the Java client has raised."""


def _words(configs: Configs) -> list[str]:
    return [f"{name}={text}" for name, text in _texts(configs).items()]


class _JavaSending:
    def __init__(self, java: Java) -> None:
        self._java = java

    def send(self, topic: str, number: int, size: int, timestamp_ms: int) -> None:
        self._java.tell("send", topic, str(number), str(size), str(timestamp_ms))

    def flush(self) -> None:
        self._java.ask("flush")

    def close(self) -> Ledger:
        self._java.tell("close")
        ledger = Ledger()
        while (line := self._java.read()) != ["close"]:
            outcome, number, *rest = line
            if outcome == "acknowledged":
                ledger.acknowledged[int(number)] = int(rest[0])
            else:
                ledger.failed[int(number)] = " ".join(rest)
        return ledger


class _JavaMember:
    def __init__(self, java: Java, topic: str) -> None:
        self._java = java
        self._topic = topic

    def commit(self, offset: int) -> None:
        def is_committed() -> bool:
            with suppress(JavaError):
                self._java.ask("commit", self._topic, str(offset))
                return True
            return False

        _until(is_committed)

    def committed(self) -> int:
        return int(self._java.ask("committed", self._topic)[0])

    def leave(self) -> None:
        self._java.ask("leave")


CLIENTS: dict[str, Callable[[], Client]] = {
    "tailrace": lambda: Tailrace("tailrace", "thread"),
    "tailrace-asyncio": lambda: Tailrace("tailrace-asyncio", "asyncio"),
    "confluent": Confluent,
    "java": Java,
}
