"""Real clients that write down what they asked of the cluster and what they were told."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

import tailrace
from tailrace.base.sentinel import NO_OFFSET
from tailrace.sim.history import Recorder

RATE_PER_S = 200
DELIVERY_TIMEOUT_MS = 180_000
DRAIN_TIMEOUT_S = 200.0
_QUIET = logging.getLogger("librdkafka")
_QUIET.setLevel(logging.CRITICAL)  # it tells of every lost connection, of which there are many here

Partition = tuple[str, int]


def shown(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def new_recorder() -> Recorder:
    """One for each thread; all have the same clock, by which their histories are put together."""
    return Recorder(lambda: time.monotonic() * 1000)


class Client:
    """A client in a thread, with its own piece of the history."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.recorder = new_recorder()
        self.problems: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_noting_problems, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def run(self) -> None:
        """What it does until it is stopped."""
        raise NotImplementedError

    def _run_noting_problems(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.problems.append(f"{self.name}: {error!r}")


class Sender(Client):
    """An idempotent producer that sends numbered values to all partitions in turn."""

    def __init__(self, name: str, partitions: list[Partition]) -> None:
        super().__init__(name)
        self._partitions = partitions

    def run(self) -> None:
        started, places = time.monotonic(), itertools.cycle(self._partitions)
        for number in itertools.count():
            if self._stopping.is_set():
                break
            partition = next(places)
            value = f"{self.name}:{number}"
            pending = self.recorder.invoke(self.name, "send", partition=shown(partition), value=value)
            self.send(partition, value.encode(), pending.ok, pending.unknown)
            ahead_s = (number + 1) / RATE_PER_S - (time.monotonic() - started)
            if ahead_s > 0:
                self._stopping.wait(ahead_s)
        self.finish()

    def send(
        self, partition: Partition, value: bytes, ok: Callable[..., None], unknown: Callable[[object], None]
    ) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


class ConfluentSender(Sender):
    """Through librdkafka."""

    def __init__(self, name: str, servers: str, partitions: list[Partition]) -> None:
        super().__init__(name, partitions)
        self._client = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "socket.timeout.ms": 10_000,
            },
            logger=_QUIET,
        )

    def send(
        self, partition: Partition, value: bytes, ok: Callable[..., None], unknown: Callable[[object], None]
    ) -> None:
        def tell(error: KafkaError | None, message: Message) -> None:
            if error is None:
                # librdkafka knows no offset of a record whose retry the broker refused as a duplicate.
                offset = message.offset()
                ok(offset=NO_OFFSET if offset is None else offset)
            else:
                unknown(error)
                if error.fatal():
                    self.problems.append(f"{self.name} was refused for good: {error}")

        while True:
            try:
                self._client.produce(partition[0], value, partition=partition[1], on_delivery=tell)
                self._client.poll(0)
                return
            except BufferError:
                self._client.poll(0.05)

    def finish(self) -> None:
        if left := self._client.flush(DELIVERY_TIMEOUT_MS / 1000):
            self.problems.append(f"{self.name}: {left} records were never answered")


class TailraceSender(Sender):
    """Through our own client."""

    def __init__(self, name: str, servers: str, partitions: list[Partition]) -> None:
        super().__init__(name, partitions)
        self._client = tailrace.Producer(
            servers,
            linger_ms=5,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=10_000,
            max_block_ms=60_000,
        )

    def send(
        self, partition: Partition, value: bytes, ok: Callable[..., None], unknown: Callable[[object], None]
    ) -> None:
        def tell(done: Any) -> None:
            if error := done.exception():
                unknown(repr(error))
                self.problems.append(f"{self.name}: {error!r}")
            else:
                ok(offset=done.result().offset)

        self._client.send(partition[0], value, partition=partition[1]).add_done_callback(tell)

    def finish(self) -> None:
        self._client.close(DELIVERY_TIMEOUT_MS / 1000)


class Reader(Client):
    """A consumer without a group that reads all partitions from the beginning."""

    def __init__(self, name: str, servers: str, partitions: list[Partition]) -> None:
        super().__init__(name)
        self._partitions = partitions
        self._client = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "socket.timeout.ms": 10_000,
            },
            logger=_QUIET,
        )

    def run(self) -> None:
        self.begin()
        while not self._stopping.is_set():
            self.poll()
        self._client.close()

    def begin(self) -> None:
        self.recorder.invoke(self.name, "assign", partitions=[shown(partition) for partition in self._partitions]).ok()
        self._client.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in self._partitions])

    def poll(self) -> list[Message]:
        pending = self.recorder.invoke(self.name, "poll")
        messages = []
        for message in self._client.consume(500, 0.2):
            if error := message.error():
                # Those below 0 are librdkafka's own: a lost connection and the like.
                if error.code() >= 0 and not error.retriable():
                    self.problems.append(f"{self.name} was refused: {error}")
            else:
                messages.append(message)
        pending.ok(records=[_taken_down(message) for message in messages])
        return messages

    def drain(self) -> None:
        """Read everything that there is, to the end that each partition has now."""
        self.begin()
        partitions = [shown(partition) for partition in self._partitions]
        pending = self.recorder.invoke(self.name, "drain", partitions=partitions)
        ends = {partition: self._end(partition) for partition in self._partitions}
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        while left := [partition for partition in ends if ends[partition]]:
            if time.monotonic() > deadline_s:
                pending.unknown(f"{left} could not be read to the end")
                self.problems.append(f"{left} could not be read to the end")
                break
            for message in self.poll():
                partition = (message.topic() or "", message.partition() or 0)
                if (message.offset() or 0) + 1 >= ends[partition]:
                    ends[partition] = 0
        else:
            pending.ok()
        self._client.close()

    def _end(self, partition: Partition) -> int:
        for _ in range(30):
            try:
                _, end = self._client.get_watermark_offsets(TopicPartition(*partition), timeout=10)
            except KafkaException:
                time.sleep(1)
                continue
            return int(end)
        raise TimeoutError(f"the end of {shown(partition)} cannot be had")


def _taken_down(message: Message) -> list[object]:
    value = (message.value() or b"").decode()
    return [f"{message.topic()}-{message.partition()}", message.offset(), value, message.leader_epoch()]
