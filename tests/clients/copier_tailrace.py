"""A copier through our own client; `copier.md` says what it does."""

from __future__ import annotations

import itertools
import sys

from tests.clients.copier_line import ABORT_EVERY, BATCH_MAX, GIVE_UP, TRANSACTION_TIMEOUT_MS, Task, say, say_offsets

from tailrace import Consumer, Producer
from tailrace.client.error import ClientError, CommitFailed, TransactionFailed
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.protocol.errors import ApiError

PASSING = (TransactionFailed, CommitFailed)


class Copier:
    """One producer and one consumer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._producer = Producer(
            task.bootstrap,
            transactional_id=task.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self._consumer = Consumer(
            task.bootstrap,
            group_id=task.group,
            group_protocol="classic",
            session_timeout_ms=task.session_ms,
            heartbeat_interval_ms=task.session_ms // 4,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )

    def run(self) -> None:
        say("init")
        self._producer.init_transactions()
        say("ready")
        self._consumer.subscribe(self._task.source)
        numbers = itertools.count(1)
        while True:
            records = self._consumer.poll(0.2, BATCH_MAX)
            if records:
                self._copy(records, next(numbers))

    def _copy(self, records: list[ConsumerRecord], number: int) -> None:
        say("begin", number)
        self._producer.begin_transaction()
        try:
            self._send(records, number)
        except PASSING as error:
            self._abort(number, error)
            return
        if number % ABORT_EVERY == 0:
            self._abort(number, None)
            return
        say("commit", number)
        try:
            self._producer.commit_transaction()
        except TransactionFailed as error:
            say("refused", number)
            self._abort(number, error)
        else:
            say("committed", number)

    def _send(self, records: list[ConsumerRecord], number: int) -> None:
        offsets: dict[int, int] = {}
        for record in records:
            value = self._task.value(record.value or b"", record.partition, record.offset, number)
            self._producer.send(self._task.target, value, key=record.key, partition=record.partition)
            offsets[record.partition] = record.offset + 1
        say_offsets(number, offsets)
        ends = {(self._task.source, partition): offset for partition, offset in offsets.items()}
        self._producer.send_offsets(ends, self._consumer)

    def _abort(self, number: int, error: Exception | None) -> None:
        if error is not None:
            print(repr(error), file=sys.stderr, flush=True)
        say("abort", number)
        self._producer.abort_transaction()
        say("aborted", number)
        self._rewind()

    def _rewind(self) -> None:
        """Read again what was not committed."""
        for target, found in self._consumer.committed(self._consumer.assignment()).items():
            self._consumer.seek(*target, "earliest" if found is None else found.offset)


def main(arguments: list[str]) -> None:
    try:
        Copier(Task(*arguments)).run()
    except (ClientError, ApiError) as error:
        print(repr(error), file=sys.stderr, flush=True)
        sys.exit(GIVE_UP)


if __name__ == "__main__":
    main(sys.argv[1:])
