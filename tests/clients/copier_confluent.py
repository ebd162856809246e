"""A copier through confluent-kafka; `copier.md` says what it does."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from tests.clients.copier_line import ABORT_EVERY, BATCH_MAX, GIVE_UP, TRANSACTION_TIMEOUT_MS, Task, say, say_offsets

WAIT_S = 30.0
STALL_S = WAIT_S + 15.0
# librdkafka 2.16 ends its thread for a broker that metadata name no more, but keeps the broker as the coordinator of a
# group, waits for a connection to it and looks for no other: send_offsets_to_transaction does not return, whatever its
# time-out (confluentinc/librdkafka, issues 5511 and 5456). Where all brokers are gone it does so by itself, and would
# with each restart of an only broker: this keeps it from that. `watched` is for brokers that others report as gone.
KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}


class Copier:
    """One producer and one consumer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._producer = Producer(
            {
                "bootstrap.servers": task.bootstrap,
                "transactional.id": task.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                **KEEPS_BROKERS,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": task.bootstrap,
                "group.id": task.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "session.timeout.ms": task.session_ms,
                "heartbeat.interval.ms": task.session_ms // 4,
                **KEEPS_BROKERS,
            }
        )

    def run(self) -> None:
        say("init")
        self._producer.init_transactions(WAIT_S)
        say("ready")
        self._consumer.subscribe([self._task.source])
        numbers = itertools.count(1)
        while True:
            messages = [each for each in self._consumer.consume(BATCH_MAX, 0.2) if each.error() is None]
            if messages:
                self._copy(messages, next(numbers))

    def _copy(self, messages: list[Message], number: int) -> None:
        say("begin", number)
        self._producer.begin_transaction()
        try:
            self._send(messages, number)
        except KafkaException as error:
            self._abort(number, error)
            return
        if number % ABORT_EVERY == 0:
            self._abort(number, None)
            return
        say("commit", number)
        try:
            self._producer.commit_transaction(WAIT_S)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                say("refused", number)
            self._abort(number, error)
        else:
            say("committed", number)

    def _send(self, messages: list[Message], number: int) -> None:
        offsets: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            value = self._task.value(message.value() or b"", partition, offset, number)
            self._producer.produce(self._task.target, value, message.key(), partition)
            offsets[partition] = offset + 1
        say_offsets(number, offsets)
        ends = [TopicPartition(self._task.source, *each) for each in offsets.items()]
        with watched(number):
            self._producer.send_offsets_to_transaction(ends, self._consumer.consumer_group_metadata(), WAIT_S)
        self._producer.flush(WAIT_S)

    def _abort(self, number: int, error: KafkaException | None) -> None:
        if error is not None:
            print(error, file=sys.stderr, flush=True)
            if not error.args[0].txn_requires_abort():
                sys.exit(GIVE_UP)
        say("abort", number)
        self._producer.abort_transaction(WAIT_S)
        say("aborted", number)
        self._rewind()

    def _rewind(self) -> None:
        """Read again what was not committed."""
        assignment = self._consumer.assignment()
        found: list[Any] = self._consumer.committed(assignment, WAIT_S) if assignment else []
        for place in found:
            self._consumer.seek(
                TopicPartition(place.topic, place.partition, place.offset if place.offset >= 0 else -2)  # the beginning
            )


@contextmanager
def watched(number: int) -> Iterator[None]:
    """End the program where a call does not return long after its time-out; its consumer would stay in the group."""
    watch = threading.Timer(STALL_S, _stall, [number])
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _stall(number: int) -> None:
    say("stalled", number)
    os._exit(GIVE_UP)


def main(arguments: list[str]) -> None:
    try:
        Copier(Task(*arguments)).run()
    except KafkaException as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(GIVE_UP)


if __name__ == "__main__":
    main(sys.argv[1:])
