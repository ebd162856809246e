"""What a consumer reads, and what has arrived of it, between the loop that fetches and the threads that read.

Everything that both sides touch is behind one lock.
"""

import asyncio
import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from runnel.base.limits import FETCH_BUFFER_BYTES_MAX
from runnel.client.assignment import Assignment, PartitionState
from runnel.client.discovery import Discovery
from runnel.client.error import ClientClosed
from runnel.client.fetch import Fetched
from runnel.client.place import Place
from runnel.client.topic_partition import TopicPartition


class Chunk(NamedTuple):
    """What one fetch brought from one partition, for a reader that still wants it."""

    fetched: Fetched
    state: PartitionState
    generation: int


class FetchQueue:
    """An assignment and the chunks that wait for readers."""

    def __init__(self, discovery: Discovery) -> None:
        self.assignment = Assignment()
        self.lock = threading.Lock()
        self.has_notice = False  # readers shall come back: their group has something for them
        self.fatal: Exception | None = None  # ends all reading
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
        """Read partitions from elsewhere."""
        with self.lock:
            for target, place in places.items():
                self.assignment.move(target, place)
            self._drop_stale()
        self.wake()

    def add_or_move(self, places: Mapping[TopicPartition, Place]) -> None:
        """Read these partitions from these places, beside those that are read already."""
        with self.lock:
            for target, place in places.items():
                if target in self.assignment:
                    self.assignment.move(target, place)
                else:
                    self.assignment.add(target, place)
            self._drop_stale()
        self.wake()

    def remove(self, targets: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        with self.lock:
            for target in targets:
                self.assignment.remove(target)
            self._drop_stale()
        self.wake()

    def rewind(self, state: PartitionState, generation: int) -> None:
        """Fetch again what lies behind a position, since what was fetched of it will not be handed out."""
        with self.lock:
            if not self.assignment.is_current(state, generation) or state.place is not None:
                return
            epochs, topic_id = state.leader_epochs, state.topic_id
            state.move(Place(state.position), self.assignment.next_generation())
            state.leader_epochs, state.topic_id = epochs, topic_id
            self._drop_stale()
        self.wake()

    def notify(self, *, fatal: Exception | None = None) -> None:
        """Have whoever reads come back at once, perhaps for good."""
        with self.lock:
            self.has_notice = True
            self.fatal = self.fatal or fatal
        self._tell()

    def pause(self, targets: Iterable[tuple[str, int]], *, is_paused: bool) -> None:
        """Stop handing out, and fetching, some partitions; or go on with them."""
        with self.lock:
            for target in targets:
                self.assignment.find(target).is_paused = is_paused
            if not is_paused and self._ready:
                self._arrived.notify_all()
        self.wake()

    # --- what has arrived

    def take(self) -> Chunk | None:
        """What has arrived, None when nothing has; raises what went wrong when there is nothing else to tell."""
        with self.lock:
            return self._take()

    def wait(self, timeout_s: float | None) -> Chunk | None:
        """What arrives within the time, or None, also for a notice; for threads other than the loop's."""
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

    def wait_for_place(self, target: tuple[str, int], timeout_s: float) -> bool:
        """Wait until it is known where a partition stands, or why not; False when that takes longer."""
        with self._arrived:
            state = self.assignment.find(target)
            return self._arrived.wait_for(lambda: state.place is None or state.error is not None, timeout_s)

    def take_ready(self) -> Chunk | None:
        """What has arrived, whatever else may be the matter."""
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
        """Whether readers are so far behind that fetching can wait."""
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
        """Have the assignment looked at."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._wake.set)

    def _tell(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self.on_arrival()
