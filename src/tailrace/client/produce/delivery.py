"""The futures that `send` returns, all of which a batch completes at once."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, Self

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.produce.row import Row
from tailrace.client.topic_partition import TopicPartition

_log = logging.getLogger(__name__)

# The states of a future; the module that defines them is private.
_RUNNING = "RUNNING"
_FINISHED = "FINISHED"


class RecordMetadata(NamedTuple):
    """The partition and offset of a written record; the offset is -1 without acks."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Outcome(NamedTuple):
    """The offset of the first record of a batch, and the broker's timestamp if the topic uses it."""

    base_offset: int
    append_time_ms: int = -1

    def metadata(self, target: TopicPartition, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return the metadata of one record of the batch."""
        offset = NO_OFFSET if self.base_offset < 0 else self.base_offset + index
        timestamp_ms = timestamp_ms if self.append_time_ms < 0 else self.append_time_ms
        return RecordMetadata(target.topic, target.partition, offset, timestamp_ms)


class Receipt(Protocol):
    """The receiver of the outcome of a batch."""

    def add(self) -> Any:
        """Return a handle for one more record."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """Return the receipt for some of the records of a split batch."""
        ...

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Report that the records are written."""
        ...

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Report that they are not, or that it is unknown."""
        ...


class DeliveryFuture(Future[RecordMetadata]):
    """The future of one record. It cannot be cancelled: a record that was taken is sent.

    A `Future` with its own lock and state would cost more than everything else about a record. So this one
    holds only the receipt of its batch and its index there, and reads the fields of `Future` from the
    receipt: a batch completes all its futures at once.
    """

    _condition = property(lambda self: self._receipt.condition)
    _state = property(lambda self: self._receipt.state_of(self._index))
    _result = property(lambda self: self._receipt.metadata_of(self._index))
    _exception = property(lambda self: self._receipt.error_of(self._index))
    _waiters = property(lambda self: self._receipt.watch(self, "waiters"))
    _done_callbacks = property(lambda self: self._receipt.watch(self, "callbacks"))

    def __init__(self, receipt: "ThreadReceipt", index: int) -> None:
        self._receipt = receipt
        self._index = index

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record to be written, up to `timeout` seconds; raises the error if it is not."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait in the same way, and return the error of the record, or None."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        # A part of a split batch also wakes waiters of the other part, which `Future` would take for the result.
        with self._receipt.condition:
            self._receipt.condition.wait_for(lambda: self._state == _FINISHED, timeout)


class _Watched:
    """The waiters and callbacks of one future."""

    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self, future: DeliveryFuture) -> None:
        self.future = future
        self.waiters: list[Any] = []
        self.callbacks: list[Any] = []


class ThreadReceipt:
    """Futures of `concurrent.futures` for the records of a batch. The parts of a split batch share the condition."""

    def __init__(self, condition: threading.Condition | None = None) -> None:
        self.condition = condition or threading.Condition()
        self._count = 0
        self._start = 0
        self._parts: list[ThreadReceipt] = []
        self._target: TopicPartition | None = None
        self._outcome: Outcome | None = None
        self._timestamps: list[int] = []
        self._error: Exception | None = None
        self._watched: dict[int, _Watched] = {}

    def add(self) -> DeliveryFuture:
        """Return the future of one more record."""
        future = DeliveryFuture(self, self._count)
        self._count += 1
        return future

    def part(self, start: int, stop: int) -> "ThreadReceipt":
        """Return the receipt for some of the records, which completes them from now on."""
        part = ThreadReceipt(self.condition)
        part._count, part._start = stop - start, start
        with self.condition:
            self._parts.append(part)
            for index in range(start, stop):
                if index in self._watched:
                    part._watched[index - start] = self._watched.pop(index)
        return part

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Complete the futures of written records."""
        with self.condition:
            if not self._is_settled:
                self._target, self._outcome = target, outcome
                self._timestamps = [row[0] for row in rows]
            self._tell_waiters()
        self._run_callbacks()

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Complete the futures with an error."""
        with self.condition:
            if not self._is_settled:
                self._error = error
            self._tell_waiters()
        self._run_callbacks()

    @property
    def _is_settled(self) -> bool:
        return self._outcome is not None or self._error is not None

    def _tell_waiters(self) -> None:
        """Wake the waiters; the caller holds the condition."""
        for item in self._watched.values():
            for waiter in item.waiters:
                waiter.add_result(item.future) if self._error is None else waiter.add_exception(item.future)
        self.condition.notify_all()

    def _run_callbacks(self) -> None:
        """Run the callbacks without the condition: a callback may send or wait for other futures."""
        for item in list(self._watched.values()):
            callbacks, item.callbacks = item.callbacks, []
            for callback in callbacks:
                try:
                    callback(item.future)
                except Exception:
                    _log.exception("a delivery callback failed")

    # --- what the futures ask, by their places

    def _find(self, index: int) -> tuple["ThreadReceipt", int]:
        for part in self._parts:
            if part._start <= index < part._start + part._count:
                return part._find(index - part._start)
        return self, index

    def state_of(self, index: int) -> str:
        """Return the state of one future."""
        receipt, _ = self._find(index)
        return _FINISHED if receipt._is_settled else _RUNNING

    def metadata_of(self, index: int) -> RecordMetadata | None:
        """Return the metadata of one record, once it is known."""
        receipt, place = self._find(index)
        if receipt._outcome is None or receipt._target is None:
            return None
        return receipt._outcome.metadata(receipt._target, place, receipt._timestamps[place])

    def error_of(self, index: int) -> Exception | None:
        """Return the error of one record."""
        return self._find(index)[0]._error

    def watch(self, future: DeliveryFuture, kind: str) -> list[Any]:
        """Return the list of waiters or callbacks of one future; the caller holds the condition."""
        receipt, place = self._find(future._index)
        watched = receipt._watched.get(place)
        if watched is None:
            watched = receipt._watched[place] = _Watched(future)
        found: list[Any] = getattr(watched, kind)
        return found


class LoopReceipt:
    """Futures of asyncio for the records of a batch; everything happens on one loop."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[RecordMetadata]] = []

    def add(self) -> "asyncio.Future[RecordMetadata]":
        """Return the future of one more record."""
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def part(self, start: int, stop: int) -> "LoopReceipt":
        """Return the receipt for some of the records."""
        receipt = LoopReceipt()
        receipt._futures = self._futures[start:stop]
        return receipt

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Complete the futures of written records."""
        for index, (future, row) in enumerate(zip(self._futures, rows, strict=True)):
            if not future.done():
                future.set_result(outcome.metadata(target, index, row[0]))

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Complete the futures with an error."""
        for future in self._futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # else asyncio reports it if the program does not use its futures
