"""Fetches for a consumer: a long poll at each leader, ahead of whoever reads, within a bound.

A task on the loop finds out what is to be read and from where, keeps one fetch under way at each
leader, and puts what they bring into a queue. Readers, in any thread, take from it. Everything that
both sides touch is behind one lock. As long as a fetch is under way for a partition or a place is
being looked up it is busy, so there is one asker for each at a time.
"""

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from runnel.base.limits import FETCH_BUFFER_BYTES_MAX
from runnel.client.assignment import Assignment, PartitionState
from runnel.client.backoff import Deadline
from runnel.client.cluster import Cluster
from runnel.client.discovery import Discovery, find_topics
from runnel.client.error import BrokerUnavailable, ClientClosed, ClientError, RequestTimeout
from runnel.client.fetch import Fetched, FetchOptions, build_fetches, fetch_version_max, read_fetched
from runnel.client.locator import Locator
from runnel.client.metadata import NO_LEADER
from runnel.client.place import AT_EARLIEST, Place
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.fetch import FetchResponse, FetchResponsePartition

_log = logging.getLogger(__name__)

_PASSING = (BrokerUnavailable, RequestTimeout, ApiError)


class Chunk(NamedTuple):
    """What one fetch brought from one partition, for a reader that still wants it."""

    fetched: Fetched
    state: PartitionState
    generation: int


class Fetcher:
    """Brings what an assignment asks for. Everything with `async` belongs to the loop it was started on."""

    def __init__(
        self,
        cluster: Cluster,
        options: FetchOptions,
        *,
        reset: Place | None,
        api_timeout_ms: int,
        metadata_max_age_s: float,
    ) -> None:
        """`reset` is where a partition goes on whose offset is out of range; None makes that an error."""
        self.assignment = Assignment()
        self.locator = Locator(cluster, options.isolation, reset)
        self.has_notice = False  # readers shall come back: their group has something for them
        self.fatal: Exception | None = None  # ends all reading
        self.lock = threading.Lock()
        self.on_arrival: Callable[[], None] = lambda: None
        self._arrived = threading.Condition(self.lock)
        self._cluster = cluster
        self._options = options
        self._reset = reset
        self._api_timeout_ms = api_timeout_ms
        self._metadata_max_age_s = metadata_max_age_s
        self._ready: deque[Chunk] = deque()
        self._ready_bytes = 0
        self._error: Exception | None = None
        self._is_closed = False
        self._discovery = Discovery(metadata_max_age_s)
        self._leaders: dict[int, tuple[int, Deadline]] = {}  # failures in a row, and until when they are borne
        self._busy_leaders: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- from any thread

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
            epochs = state.leader_epochs
            state.move(Place(state.position), self.assignment.next_generation())
            state.leader_epochs = epochs
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

    def _take_ready(self) -> Chunk | None:
        for _ in range(len(self._ready)):
            chunk = self._ready.popleft()
            if chunk.state.is_paused:
                self._ready.append(chunk)
                continue
            was_full = self._ready_bytes >= FETCH_BUFFER_BYTES_MAX
            self._ready_bytes -= len(chunk.fetched.data)
            if was_full:
                self.wake()
            return chunk
        return None

    def _drop_stale(self) -> None:
        fresh = [chunk for chunk in self._ready if self.assignment.is_current(chunk.state, chunk.generation)]
        self._ready = deque(fresh)
        self._ready_bytes = sum(len(chunk.fetched.data) for chunk in fresh)

    def wake(self) -> None:
        """Have the assignment looked at."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._wake.set)

    # --- on the loop

    def start(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._start(self._run())

    async def close(self) -> None:
        """Stop; fetches under way are dropped."""
        with self.lock:
            self._is_closed = True
            self._ready.clear()
            self._ready_bytes = 0
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tell()
        await self._cluster.close_lane(self)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self.on_arrival()

    def _fail(self, error: Exception) -> None:
        with self.lock:
            self._error = error
        self._tell()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                self._look()
            except Exception as error:  # a bug must reach the reader, not a task that nobody waits for
                self._fail(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._metadata_max_age_s):
                    await self._wake.wait()

    def _look(self) -> None:
        """Start whatever can be started."""
        now_s = time.monotonic()
        with self.lock:
            if self._discovery.is_due(now_s):
                self._discovery.is_running = True
                self._start(self._discover())
            lost = [state for state in self.assignment if state.place is not None and not state.is_busy]
            if lost:
                self._occupy(lost)
                self._start(self._find_places([(state, state.generation) for state in lost]))
            unknown = [s for s in self.assignment if s.is_fetchable and s.target.topic not in self._cluster.view.topics]
            if unknown:
                self._occupy(unknown)
                self._start(self._learn([(state, state.generation) for state in unknown]))
            if self._ready_bytes >= FETCH_BUFFER_BYTES_MAX:
                return
            for leader_id, states in self._idle_by_leader().items():
                if leader_id not in self._busy_leaders:
                    self._occupy(states)
                    self._busy_leaders.add(leader_id)
                    asked = {state.target: (state, state.generation, state.fetch_offset) for state in states}
                    self._start(self._fetch(leader_id, asked))

    def _idle_by_leader(self) -> dict[int, list[PartitionState]]:
        by_leader: dict[int, list[PartitionState]] = defaultdict(list)
        topics = self._cluster.view.topics
        for state in self.assignment:
            if state.is_fetchable:
                topic = topics.get(state.target.topic)
                by_leader[NO_LEADER if topic is None else topic.leader_id(state.target.partition)].append(state)
        return by_leader

    def _occupy(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            state.is_busy = True

    def _release(self, states: Iterable[PartitionState]) -> None:
        with self.lock:
            for state in states:
                state.is_busy = False
        self._wake.set()

    # --- what to read

    async def _discover(self) -> None:
        """Find the partitions of what is subscribed to; those that appear later are read from their beginning."""
        discovery = self._discovery
        try:
            with self.lock:
                wanted, is_first = discovery.wanted, discovery.is_first
            topics = await find_topics(self._cluster, *wanted)
            with self.lock:
                if discovery.wanted != wanted:
                    return
                place = (self._reset or AT_EARLIEST) if is_first else AT_EARLIEST
                for topic in topics:
                    for partition in range(len(topic.partitions)):
                        self.assignment.add(TopicPartition(topic.name, partition), place)
                discovery.note(time.monotonic())
        except (ClientError, ApiError, RemoteProtocolError) as error:
            with self.lock:
                if discovery.is_first:
                    discovery.want((), None)
                    self._error = error
                else:
                    discovery.note(time.monotonic())  # what is read goes on; the next time may do better
            self._tell()
        finally:
            discovery.is_running = False
            self._wake.set()

    async def _learn(self, wanted: list[tuple[PartitionState, int]]) -> None:
        """Ask about topics that were never heard of, and whether they have the partitions."""
        try:
            for state, generation in wanted:
                try:
                    await self._cluster.leader_id(*state.target)
                except (ClientError, ApiError, RemoteProtocolError) as error:
                    if not isinstance(error, ApiError) or error.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                        self._blame([(state, generation)], error)
        finally:
            self._release(state for state, _ in wanted)

    async def _find_places(self, wanted: list[tuple[PartitionState, int]]) -> None:
        """Turn times, words and commits into offsets."""
        try:
            places = {state.target: state.place for state, _ in wanted if state.place is not None}
            outcomes = await self.locator.locate(places)
            with self.lock:
                for state, generation in wanted:
                    outcome = outcomes.get(state.target)
                    if outcome is None or not self.assignment.is_current(state, generation):
                        continue
                    if isinstance(outcome, Exception):
                        state.error = outcome
                    else:
                        state.settle(*outcome)
            self._tell()
        finally:
            self._release(state for state, _ in wanted)

    def _blame(self, pairs: Iterable[tuple[PartitionState, int]], error: Exception) -> None:
        """Keep an error for those who read, until they move the partitions elsewhere."""
        with self.lock:
            for state, generation in pairs:
                if self.assignment.is_current(state, generation):
                    state.error = error
        self._tell()

    def condemn(self, state: PartitionState, generation: int, error: Exception) -> None:
        """Stop at a record that cannot be read, and keep saying so until the partition is moved elsewhere."""
        with self.lock:
            if self.assignment.is_current(state, generation):
                state.move(Place(offset=state.position), self.assignment.next_generation())
                state.error = error

    # --- one fetch

    async def _fetch(self, leader_id: int, asked: dict[TopicPartition, tuple[PartitionState, int, int]]) -> None:
        """One fetch from one leader and, where it failed, the wait before the next."""
        try:
            if leader_id == NO_LEADER:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{next(iter(asked))} has no leader")
            await self._fetch_once(leader_id, asked)
            self._leaders.pop(leader_id, None)
        except _PASSING as error:
            await self._recover(leader_id, asked, error)
        except Exception as error:
            self._blame([(state, generation) for state, generation, _ in asked.values()], error)
        finally:
            self._busy_leaders.discard(leader_id)
            self._release(state for state, _, _ in asked.values())

    async def _fetch_once(self, leader_id: int, asked: dict[TopicPartition, tuple[PartitionState, int, int]]) -> None:
        topics = {target.topic: self._cluster.view.topics[target.topic] for target in asked}
        connection = await self._cluster.connection(leader_id, lane=self)
        reply = await connection.request(
            build_fetches(topics, {target: offset for target, (_, _, offset) in asked.items()}, self._options),
            FetchResponse,
            version_max=fetch_version_max(*topics.values()),
            timeout_ms=self._cluster.request_timeout_ms + self._options.max_wait_ms,
        )
        names = {topic.topic_id: name for name, topic in topics.items()}
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), "fetching")
        failures = []
        for item in reply.responses:
            name = item.topic or names.get(item.topic_id, "")
            for answer in item.partitions:
                entry = asked.get(TopicPartition(name, answer.partition_index))
                if entry is not None and (failure := self._accept(*entry, answer)) is not None:
                    failures.append(failure)
        if failures:
            raise failures[0]

    def _accept(
        self, state: PartitionState, generation: int, offset: int, answer: FetchResponsePartition
    ) -> ApiError | None:
        """Keep what an answer brought; the error that may pass, if there is one."""
        if answer.error_code:
            return self._refuse(state, generation, offset, ErrorCode(answer.error_code))
        fetched = read_fetched(state.target.topic, offset, answer)
        with self.lock:
            if not self.assignment.is_current(state, generation):
                return None
            state.high_watermark = answer.high_watermark
            if fetched is None:
                return None
            state.fetch_offset = fetched.next_offset
            self.assignment.put_last(state)
            self._ready.append(Chunk(fetched, state, generation))
            self._ready_bytes += len(fetched.data)
        self._tell()
        return None

    def _refuse(self, state: PartitionState, generation: int, offset: int, code: ErrorCode) -> ApiError | None:
        error = ApiError(code, f"reading {state.target} at offset {offset}")
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            # What is broken on the broker's disk stays so; whoever reads must know and may go on behind it.
            if code.retriable and code is not ErrorCode.CORRUPT_MESSAGE:
                return error
            self._blame([(state, generation)], error)
            return None
        if self._reset is None:
            text = f"{state.target} has no offset {offset}; seek elsewhere or set auto_offset_reset"
            self._blame([(state, generation)], ApiError(code, text))
            return None
        _log.warning("%s has no offset %d; going on as auto_offset_reset says", state.target, offset)
        with self.lock:
            if self.assignment.is_current(state, generation):
                state.move(self._reset, self.assignment.next_generation())
        return None

    async def _recover(
        self,
        leader_id: int,
        asked: dict[TopicPartition, tuple[PartitionState, int, int]],
        error: ClientError | ApiError,
    ) -> None:
        """Wait and look for the leaders anew; tell those who read when that has not helped for long."""
        failure_count, deadline = self._leaders.get(leader_id, (0, Deadline(self._api_timeout_ms)))
        if isinstance(error, ApiError) and not error.code.retriable:
            self._blame([(state, generation) for state, generation, _ in asked.values()], error)
            return
        if deadline.is_over:
            failure_count, deadline = 0, Deadline(self._api_timeout_ms)
            self._fail(error)
        self._leaders[leader_id] = (failure_count + 1, deadline)
        await asyncio.sleep(self._cluster.backoff.wait_s(failure_count + 1))
        with contextlib.suppress(ClientError, ApiError, RemoteProtocolError):
            await self._cluster.refresh({target.topic for target in asked})
