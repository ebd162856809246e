"""What became of records: the futures that `send` returns, and how a batch settles all of them at once."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, Self

from runnel.client.row import Row
from runnel.client.topic_partition import TopicPartition

# The states of a future; the module that names them is private.
_RUNNING = "RUNNING"
_FINISHED = "FINISHED"
UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record was written. Without acks nobody tells, and the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Outcome(NamedTuple):
    """Where the first record of a batch was written, and the broker's time where the topic keeps that."""

    base_offset: int
    append_time_ms: int = -1

    def metadata(self, target: TopicPartition, index: int, row: Row) -> RecordMetadata:
        """What to tell of one record of the batch."""
        offset = UNKNOWN_OFFSET if self.base_offset < 0 else self.base_offset + index
        timestamp_ms = row[0] if self.append_time_ms < 0 else self.append_time_ms
        return RecordMetadata(target.topic, target.partition, offset, timestamp_ms)


class Receipt(Protocol):
    """Those who want to know what becomes of the records of a batch."""

    def add(self) -> Any:
        """A handle for one more record."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """The receipt for some of the records, when a batch is divided."""
        ...

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Tell that the records are written."""
        ...

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Tell that they are not, or that nobody knows."""
        ...


class DeliveryFuture(Future[RecordMetadata]):
    """The future of one record. It cannot be cancelled: a record that was taken is sent.

    A `Future` of its own for each record would spend more on its lock than on everything else, so
    those of a batch share one. They are settled together, and each waits for its own state.
    """

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._state = _RUNNING
        self._result: RecordMetadata | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record to be written, at most so many seconds; raises what kept it from being written."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait likewise, and return what kept the record from being written, or None."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._state == _FINISHED, timeout)

    def finish(self, result: RecordMetadata | None, error: BaseException | None) -> None:
        """Set the outcome, with the condition held; the first one counts."""
        if self._state == _FINISHED:
            return
        self._result, self._exception, self._state = result, error, _FINISHED
        for waiter in self._waiters:
            waiter.add_exception(self) if error is not None else waiter.add_result(self)

    def notify(self) -> None:
        """Run the callbacks, with the condition free."""
        if self._done_callbacks:
            self._invoke_callbacks()  # type: ignore[attr-defined]


class ThreadReceipt:
    """Futures of `concurrent.futures` for the records of a batch."""

    def __init__(self, condition: threading.Condition | None = None) -> None:
        self._condition = condition or threading.Condition()
        self._futures: list[DeliveryFuture] = []

    def add(self) -> DeliveryFuture:
        """The future of one more record."""
        future = DeliveryFuture(self._condition)
        self._futures.append(future)
        return future

    def part(self, start: int, stop: int) -> "ThreadReceipt":
        """The receipt for some of the records."""
        receipt = ThreadReceipt(self._condition)
        receipt._futures = self._futures[start:stop]
        return receipt

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:  # noqa: ARG002
        """Tell everybody that the records are written."""
        with self._condition:
            for index, (future, row) in enumerate(zip(self._futures, rows, strict=True)):
                future.finish(outcome.metadata(target, index, row), None)
            self._condition.notify_all()
        self._notify()

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:  # noqa: ARG002
        """Tell everybody that they are not."""
        with self._condition:
            for future in self._futures:
                future.finish(None, error)
            self._condition.notify_all()
        self._notify()

    def _notify(self) -> None:
        for future in self._futures:
            future.notify()


class LoopReceipt:
    """Futures of asyncio for the records of a batch; everything happens on one loop."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[RecordMetadata]] = []

    def add(self) -> "asyncio.Future[RecordMetadata]":
        """The future of one more record."""
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def part(self, start: int, stop: int) -> "LoopReceipt":
        """The receipt for some of the records."""
        receipt = LoopReceipt()
        receipt._futures = self._futures[start:stop]
        return receipt

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:  # noqa: ARG002
        """Tell everybody that the records are written."""
        for index, (future, row) in enumerate(zip(self._futures, rows, strict=True)):
            if not future.done():
                future.set_result(outcome.metadata(target, index, row))

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:  # noqa: ARG002
        """Tell everybody that they are not."""
        for future in self._futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a program that does not look at its futures is not scolded by the interpreter
