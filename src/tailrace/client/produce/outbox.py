"""The outbox of a producer: a queue of batches for each partition.

Any thread appends, and one event loop takes batches out; a lock is between them. It uses neither sockets nor
clocks. A batch is ready when it is full, when it has lingered, or during a flush. Batches of a partition are
sent in order, and a retry goes before batches that were not sent yet. When the memory for records is used up,
`append` returns None and the caller waits: a thread with `wait_for_room`, a task for `on_progress`.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tailrace.client.error import ClientClosed
from tailrace.client.metadata import NO_LEADER
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import Receipt
from tailrace.client.produce.queue import Drained, OutboxOptions, Place, Queue
from tailrace.client.produce.row import Row
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition


class Outbox:
    """The batches of all partitions that are not acknowledged yet."""

    def __init__(self, options: OutboxOptions, new_receipt: Callable[[], Receipt]) -> None:
        self.options = options
        self._batch_size_bytes = options.batch_size_bytes
        self._buffer_bytes_max = options.buffer_bytes_max
        self._listeners: list[Callable[[], None]] = []
        self._new_receipt = new_receipt
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._waiter_count = 0
        self._queues: dict[tuple[str, int], Queue] = {}
        self._active: dict[tuple[str, int], Queue] = {}  # the queues with batches to send
        self._incomplete: dict[Batch, None] = {}
        self._held_bytes = 0
        self._flusher_count = 0
        self._serial = 0
        self._refusal: Exception | None = None
        self.closed_by: Exception | None = None
        """The error that closed the outbox and failed its batches."""

    # --- putting in, from any thread

    def append(self, topic: str, partition: int, row: Row, size_bytes: int, now_s: float) -> tuple[Any, bool] | None:
        """Append a record; returns its handle and whether to wake the sender, or None if there is no room."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal.with_traceback(None)
            held_bytes = self._held_bytes + size_bytes
            if held_bytes > self._buffer_bytes_max and self._held_bytes:
                return None
            queue = self._queues.get((topic, partition)) or self._new_queue(topic, partition)
            batch = queue.open
            must_look = False
            if batch is None or batch.size_bytes + size_bytes > self._batch_size_bytes:
                batch = self._open_batch(queue, now_s)
                held_bytes = self._held_bytes + size_bytes
                must_look = True
            # Inlined, because this runs for every record.
            batch.rows.append(row)
            batch.record_count += 1
            batch.size_bytes += size_bytes
            self._held_bytes = held_bytes
            if batch.size_bytes >= self._batch_size_bytes:
                batch.is_closed = must_look = True
                queue.open = None
            return batch.receipt.add(), must_look

    def add_encoded(self, target: TopicPartition, receipt: Receipt, data: bytearray, count: int, now_s: float) -> bool:
        """Append an encoded batch; False if there is no room."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal.with_traceback(None)
            if self._held_bytes + len(data) > self._buffer_bytes_max and self._held_bytes:
                return False
            queue = self._queues.get(target) or self._new_queue(*target)
            if queue.open is not None:
                queue.open.is_closed, queue.open = True, None
            self._enqueue(queue, Batch.encoded(target, receipt, now_s, self._next_order(), data, count))
            return True

    def refuse(self, error: Exception | None) -> None:
        """Reject records with an error from now on; None accepts them again, unless the outbox is closed."""
        with self._lock:
            if self.closed_by is None:
                self._refusal = error
                self._progress.notify_all()

    def _new_queue(self, topic: str, partition: int) -> Queue:
        queue = self._queues[topic, partition] = Queue(TopicPartition(topic, partition))
        return queue

    def _open_batch(self, queue: Queue, now_s: float) -> Batch:
        if queue.open is not None:
            queue.open.is_closed = True
        queue.open = Batch(queue.target, self._new_receipt(), now_s, self._next_order())
        self._enqueue(queue, queue.open)
        return queue.open

    def _next_order(self) -> tuple[int, ...]:
        self._serial += 1
        return (self._serial,)

    def _enqueue(self, queue: Queue, batch: Batch) -> None:
        queue.batches.append(batch)
        self._active[queue.target] = queue
        self._incomplete[batch] = None
        self._held_bytes += batch.size_bytes

    # --- waiting, from any thread but the loop's

    def wait_for_room(self, size_bytes: int, timeout_s: float) -> bool:
        """Wait until there is room for so many bytes; False after the time."""
        return self._wait(
            lambda: (
                self._refusal is not None
                or not self._held_bytes
                or self._held_bytes + size_bytes <= self._buffer_bytes_max
            ),
            timeout_s,
        )

    def wait_until_complete(self, mark: int, timeout_s: float | None) -> bool:
        """Wait until all batches up to a mark have an outcome; False after the time."""
        return self._wait(lambda: self._is_complete(mark), timeout_s)

    def _wait(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        with self._progress:
            self._waiter_count += 1
            try:
                return self._progress.wait_for(condition, timeout_s)
            finally:
                self._waiter_count -= 1

    def begin_wait(self) -> None:
        """Count a task that waits for room, so that no batch lingers."""
        with self._lock:
            self._waiter_count += 1

    def end_wait(self) -> None:
        """Count a task that has stopped waiting."""
        with self._lock:
            self._waiter_count -= 1

    # --- flushing

    def begin_flush(self) -> int:
        """Make every batch ready until `end_flush`; returns a mark for the batches so far."""
        with self._lock:
            self._flusher_count += 1
            return self._serial

    def end_flush(self) -> None:
        """End a flush."""
        with self._lock:
            self._flusher_count -= 1

    def is_complete(self, mark: int) -> bool:
        """Return whether all batches up to a mark have an outcome."""
        with self._lock:
            return self._is_complete(mark)

    def _is_complete(self, mark: int) -> bool:
        return all(batch.order[0] > mark for batch in self._incomplete)

    @property
    def held_bytes(self) -> int:
        """The memory of records without an outcome."""
        return self._held_bytes

    @property
    def topics(self) -> set[str]:
        """The topics that records have been sent to."""
        with self._lock:
            return {topic for topic, _ in self._queues}

    # --- taking out, from the loop

    def drain(
        self,
        now_s: float,
        leader_of: Callable[[TopicPartition], int],
        capacity: Callable[[int], bool],
        identity: Identity | None,
        admits: Callable[[TopicPartition], bool] = lambda _: True,
    ) -> Drained:
        """Take out batches that can be sent: at most one of each partition, and one request for each leader.

        Batches that `admits` rejects stay until the next call.
        """
        drained = Drained()
        sizes: dict[int, int] = {}
        with self._lock:
            for queue in list(self._active.values()):
                self._expire(queue, now_s, drained)
                if queue.batches and self._is_ready(queue, now_s, drained):
                    leader_id = leader_of(queue.target)
                    if leader_id == NO_LEADER:
                        drained.leaderless_topics.add(queue.target.topic)
                    elif self.options.is_ordered and queue.would_overtake(leader_id):
                        pass  # the sender comes again when the batches in flight have an outcome
                    elif capacity(leader_id) and admits(queue.target):
                        self._take(queue, leader_id, sizes, identity, now_s, drained)
                if not queue.batches:
                    self._active.pop(queue.target, None)
        return drained

    def _expire(self, queue: Queue, now_s: float, drained: Drained) -> None:
        while queue.batches:
            ends_at_s = queue.batches[0].created_at_s + self.options.delivery_timeout_s
            if ends_at_s > now_s:
                drained.look_again(ends_at_s)
                return
            drained.expired.append(queue.take())
            queue.in_flight_count += 1  # until its failure is reported, like that of a sent batch

    def _is_ready(self, queue: Queue, now_s: float, drained: Drained) -> bool:
        batch = queue.batches[0]
        if self.options.is_idempotent and queue.in_flight_count == 0 and queue.sequence.settle_doubt():
            drained.restarting.append(queue)
            return False
        lingers_until_s = batch.created_at_s + self.options.linger_s
        if batch.is_closed or self._flusher_count or len(queue.batches) > 1 or self._waiter_count:
            lingers_until_s = 0.0
        ready_at_s = max(lingers_until_s, batch.not_before_s)
        if ready_at_s > now_s:
            drained.look_again(ready_at_s)
            return False
        return not self.options.is_idempotent or queue.sequence.may_take(batch)

    def _take(
        self,
        queue: Queue,
        leader_id: int,
        sizes: dict[int, int],
        identity: Identity | None,
        now_s: float,
        drained: Drained,
    ) -> None:
        size_bytes = sizes.get(leader_id, 0)
        batch = queue.batches[0]
        if size_bytes and size_bytes + batch.size_bytes > self.options.request_bytes_max:
            drained.look_again(now_s)  # it is sent with the next request
            return
        if self.options.is_idempotent:
            if identity is None:
                return
            batch.is_closed = True
            queue.sequence.assign(batch, identity)
        queue.enter_flight(leader_id, now_s)
        sizes[leader_id] = size_bytes + batch.size_bytes
        drained.requests.setdefault(leader_id, []).append(batch)
        del self._active[queue.target]  # moved to the end, so that every partition has its turn
        self._active[queue.target] = queue

    def depart(self, batches: list[Batch], connection: object, topic_ids: Mapping[str, UUID]) -> list[Batch]:
        """Return those of the taken batches that may be written to a connection now, and count the attempt.

        A batch that would overtake an earlier one of its partition is put back. The earlier one may have failed since
        this one was taken.
        """
        leaving = []
        with self._lock:
            for batch in batches:
                queue = self._queues[batch.target]
                place = Place(connection, topic_ids.get(batch.target.topic))
                if self.options.is_ordered and queue.must_wait(batch, place):
                    self._put_back(batch)
                else:
                    queue.place = place
                    batch.unanswered_count += 1
                    leaving.append(batch)
        return leaving

    # --- settling, from the loop

    def queue_of(self, batch: Batch) -> Queue:
        """Return the queue that a batch was taken from."""
        return self._queues[batch.target]

    def put_back(self, batch: Batch, not_before_s: float) -> None:
        """Return a batch to the queue, before all later batches of its partition."""
        with self._lock:
            batch.failure_count += 1
            batch.not_before_s = not_before_s
            self._put_back(batch)

    def _put_back(self, batch: Batch) -> None:
        queue = self._leave_flight(batch)
        queue.insert([batch])
        self._active[queue.target] = queue

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Replace a batch that was taken by its parts."""
        with self._lock:
            queue = self._leave_flight(batch)
            queue.sequence.replace(batch, parts)
            queue.insert(parts)
            self._active[queue.target] = queue
            self._incomplete |= dict.fromkeys(parts)
            self._held_bytes += sum(part.size_bytes for part in parts)
            self._forget(batch)

    def acknowledge(self, batch: Batch, *, is_answer: bool = True) -> None:
        """Remove a batch that is written, as the broker answers or as the client concludes."""
        with self._lock:
            queue = self._queues[batch.target]
            if is_answer:
                queue.known_place = queue.place
            self._leave_flight(batch).sequence.acknowledge(batch)
            self._forget(batch)

    def is_written(self, batch: Batch) -> bool:
        """Return whether a batch without an outcome is in the log, because a later one was accepted."""
        return self._queues[batch.target].sequence.is_written(batch)

    def give_up(self, batch: Batch) -> None:
        """Remove a batch that will not be sent again."""
        with self._lock:
            self._leave_flight(batch).sequence.give_up(batch)
            self._forget(batch)

    def drop_unsent(self) -> list[Batch]:
        """Remove and return all batches that are not in flight."""
        dropped: list[Batch] = []
        with self._lock:
            for queue in self._active.values():
                while queue.batches:
                    batch = queue.take()
                    queue.sequence.give_up(batch)
                    self._forget(batch)
                    dropped.append(batch)
            self._active.clear()
        return dropped

    def drop_doubtful(self, queue: Queue) -> list[Batch]:
        """Remove and return the batches of a partition that may be written. None of the partition may be in flight."""
        with self._lock:
            doubtful = [batch for batch in queue.sequence.unsettled if batch.is_in_doubt]
            for batch in doubtful:
                queue.batches.remove(batch)
                queue.sequence.give_up(batch)
                self._forget(batch)
        return doubtful

    def restart(self, queue: Queue, identity: Identity) -> None:
        """Restart the sequence numbers of a partition."""
        with self._lock:
            queue.sequence.restart(identity)

    def _leave_flight(self, batch: Batch) -> Queue:
        queue = self._queues[batch.target]
        queue.leave_flight()
        return queue

    def _forget(self, batch: Batch) -> None:
        if batch in self._incomplete:  # else the outbox was closed in the meantime
            del self._incomplete[batch]
            self._held_bytes -= batch.size_bytes

    def on_progress(self, listener: Callable[[], None]) -> None:
        """Add a function to be called on the loop after each outcome."""
        self._listeners.append(listener)

    def tell_progress(self) -> None:
        """Wake all waiters for room or for a flush."""
        with self._progress:
            if self._waiter_count:
                self._progress.notify_all()
        for listener in self._listeners:
            listener()

    def close(self, error: Exception | None = None) -> list[Batch]:
        """Reject new records, and return all batches without an outcome."""
        with self._lock:
            self.closed_by = self._refusal = error or ClientClosed("the producer is closed")
            left = list(self._incomplete)
            self._incomplete.clear()
            self._active.clear()
            self._held_bytes = 0
            self._progress.notify_all()
        return left
