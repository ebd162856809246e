"""The queue between the event loop that fetches and the threads that read. One lock protects all of it."""

import asyncio
import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tailrace.base.limits import FETCH_BUFFER_BYTES_MAX
from tailrace.client.error import ClientClosed
from tailrace.client.fetch.assignment import Assignment, PartitionState
from tailrace.client.fetch.discovery import Discovery
from tailrace.client.fetch.request import Fetched
from tailrace.client.place import Place
from tailrace.client.topic_partition import TopicPartition


class Chunk(NamedTuple):
    """The data of one partition from one fetch, and the generation that it was fetched for."""

    fetched: Fetched
    state: PartitionState
    generation: int


class FetchQueue:
    """An assignment and the chunks that wait for readers."""

    def __init__(self, discovery: Discovery) -> None:
        self.assignment = Assignment()
        self.lock = threading.Lock()
        self.has_notice = False  # the group has a step for the reader
        self.fatal: Exception | None = None  # raised by every read from now on
        self.on_arrival: Callable[[], None] = lambda: None
        self._discovery = discovery
        self._arrived = threading.Condition(self.lock)
        self._ready: deque[Chunk] = deque()
        self._ready_bytes = 0
        self._error: Exception | None = None
        self._is_closed = False
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- what to read

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Read every partition of these topics, and of those whose names match."""
        with self.lock:
            self._discovery.want(topics, pattern)
            self.assignment.replace(())
            self._drop_stale()
        self.wake()

    def assign(self, places: Iterable[tuple[TopicPartition, Place]]) -> None:
        """Read these partitions from these places."""
        with self.lock:
            self._discovery.want((), None)
            self.assignment.replace(places)
            self._drop_stale()
        self.wake()

    def move(self, places: Mapping[tuple[str, int], Place]) -> None:
        """Continue partitions at other places."""
        with self.lock:
            for target, place in places.items():
                self.assignment.move(target, place)
            self._drop_stale()
        self.wake()

    def add_or_move(self, places: Mapping[TopicPartition, Place]) -> None:
        """Read these partitions from these places, in addition to those that are read."""
        with self.lock:
            for target, place in places.items():
                if target in self.assignment:
                    self.assignment.move(target, place)
                else:
                    self.assignment.add(target, place)
            self._drop_stale()
        self.wake()

    def remove(self, targets: Iterable[TopicPartition]) -> None:
        """Stop reading some partitions."""
        with self.lock:
            for target in targets:
                self.assignment.remove(target)
            self._drop_stale()
        self.wake()

    def rewind(self, state: PartitionState, generation: int) -> None:
        """Fetch a partition again from its position, because its fetched data will not be returned."""
        with self.lock:
            if not self.assignment.is_current(state, generation) or state.place is not None:
                return
            epochs, topic_id = state.leader_epochs, state.topic_id
            state.move(Place(state.position), self.assignment.next_generation())
            state.leader_epochs, state.topic_id = epochs, topic_id
            self._drop_stale()
        self.wake()

    def notify(self, *, fatal: Exception | None = None) -> None:
        """Make waiting reads return at once; `fatal` is raised by all reads from now on."""
        with self.lock:
            self.has_notice = True
            self.fatal = self.fatal or fatal
        self._tell()

    def pause(self, targets: Iterable[tuple[str, int]], *, is_paused: bool) -> None:
        """Stop or continue returning and fetching some partitions."""
        with self.lock:
            for target in targets:
                self.assignment.find(target).is_paused = is_paused
            if not is_paused and self._ready:
                self._arrived.notify_all()
        self.wake()

    # --- what has arrived

    def take(self) -> Chunk | None:
        """Return a chunk, or None if there is none; raises a pending error if there is no chunk."""
        with self.lock:
            return self._take()

    def wait(self, timeout_s: float | None) -> Chunk | None:
        """Return the chunk that arrives within the time; None after that or for a notice. Not for the loop's thread."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._arrived:
            while (chunk := self._take()) is None:
                if self.has_notice:
                    return None
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._arrived.wait(left_s)
            return chunk

    def has_place(self, target: tuple[str, int]) -> bool:
        """Return whether the position of a partition, or what is wrong with it, is known."""
        with self.lock:
            return self.assignment.find(target).is_placed

    def wait_for_place(self, target: tuple[str, int], timeout_s: float) -> bool:
        """Wait until the position of a partition, or what is wrong with it, is known; False after the time."""
        with self._arrived:
            state = self.assignment.find(target)
            return self._arrived.wait_for(lambda: state.is_placed, timeout_s)

    def take_ready(self) -> Chunk | None:
        """Return a chunk, or None if there is none, and leave pending errors."""
        with self.lock:
            return self._take_ready()

    def _take(self) -> Chunk | None:
        if self.fatal is not None:
            raise self.fatal
        if (chunk := self._take_ready()) is not None:
            return chunk
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        error = self._error or next((state.error for state in self.assignment if state.error is not None), None)
        self._error = None
        if error is not None:
            raise error
        return None

    @property
    def is_full(self) -> bool:
        """Whether the reader is so far behind that fetching can wait."""
        return self._ready_bytes >= FETCH_BUFFER_BYTES_MAX

    def _take_ready(self) -> Chunk | None:
        for _ in range(len(self._ready)):
            chunk = self._ready.popleft()
            if chunk.state.is_paused:
                self._ready.append(chunk)
                continue
            was_full = self.is_full
            self._ready_bytes -= len(chunk.fetched.data)
            if was_full:
                self.wake()
            return chunk
        return None

    def _put(self, chunk: Chunk) -> None:
        self._ready.append(chunk)
        self._ready_bytes += len(chunk.fetched.data)

    def _clear(self) -> None:
        self._ready.clear()
        self._ready_bytes = 0

    def _drop_stale(self) -> None:
        fresh = [chunk for chunk in self._ready if self.assignment.is_current(chunk.state, chunk.generation)]
        self._ready = deque(fresh)
        self._ready_bytes = sum(len(chunk.fetched.data) for chunk in fresh)

    def wake(self) -> None:
        """Wake the task that starts fetches."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(self._wake.set)

    def _tell(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self.on_arrival()
