"""The fetches of a consumer: a long poll at each leader, ahead of the reader, within a bound.

A task on the event loop finds the offsets to read, keeps one fetch in flight at each leader, and puts the
data into a queue, from which readers in any thread take it. One lock protects all shared state. A
partition is busy while a request about it is in flight, so there is one at a time.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from typing import Any
from uuid import UUID

from tailrace.client.backoff import Deadline
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, ClientError, OffsetMissing, RequestTimeout
from tailrace.client.fetch.assignment import PartitionState
from tailrace.client.fetch.discovery import Discovery, find_topics
from tailrace.client.fetch.locator import Located, Locator
from tailrace.client.fetch.queue import Chunk, FetchQueue
from tailrace.client.fetch.request import FetchOptions, build_fetches, fetch_version_max, read_fetched, readable_end
from tailrace.client.leader_hint import read_hint
from tailrace.client.metadata import NO_LEADER
from tailrace.client.place import AT_COMMITTED, AT_EARLIEST, Place
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.fetch import FetchResponse, FetchResponsePartition
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.records.error import RecordError

_log = logging.getLogger(__name__)

_PASSING = (BrokerUnavailable, RequestTimeout, ApiError)


class Fetcher(FetchQueue):
    """Fetches the partitions of an assignment. Coroutines belong to the event loop that it was started on."""

    def __init__(
        self,
        cluster: Cluster,
        options: FetchOptions,
        *,
        reset: Place | None,
        api_timeout_ms: int,
        metadata_max_age_s: float,
    ) -> None:
        """`reset` is where a partition continues if its offset is out of range; None makes that an error."""
        super().__init__(Discovery(metadata_max_age_s))
        self.locator = Locator(cluster, options.isolation, reset)
        self._cluster = cluster
        self._options = options
        self._reset = reset
        self._api_timeout_ms = api_timeout_ms
        self._metadata_max_age_s = metadata_max_age_s
        self._leaders: dict[int, tuple[int, Deadline]] = {}  # failures in a row, and the deadline for them
        self._busy_leaders: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- on the loop

    def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._start(self._run())

    async def close(self) -> None:
        """Stop; fetches in flight are dropped."""
        with self.lock:
            self._is_closed = True
            self._clear()
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

    def _fail(self, error: Exception) -> None:
        with self.lock:
            self._error = error
        self._tell()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                self._look()
            except Exception as error:  # a bug must reach the reader; nothing waits for this task
                self._fail(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._metadata_max_age_s):
                    await self._wake.wait()

    def _look(self) -> None:
        """Start every request that can be started."""
        now_s = time.monotonic()
        with self.lock:
            if self._discovery.is_due(now_s):
                self._discovery.is_running = True
                self._start(self._discover())
            self._leave_old_topics()
            lost = [state for state in self.assignment if state.is_lost]
            if lost:
                self._occupy(lost)
                self._start(self._find_places([(state, state.generation) for state in lost]))
            unknown = [s for s in self.assignment if s.is_fetchable and s.target.topic not in self._cluster.view.topics]
            if unknown:
                self._occupy(unknown)
                self._start(self._learn([(state, state.generation) for state in unknown]))
            if self.is_full:
                return
            for leader_id, states in self._idle_by_leader().items():
                if leader_id not in self._busy_leaders:
                    self._occupy(states)
                    self._busy_leaders.add(leader_id)
                    for state in states:
                        state.topic_id = state.topic_id or self._topic_id(state)
                    asked = {state.target: (state, state.generation, state.fetch_offset) for state in states}
                    self._start(self._fetch(leader_id, asked))

    def _leave_old_topics(self) -> None:
        """Move partitions whose topic was deleted and created again: old offsets mean nothing in the new topic."""
        for state in [s for s in self.assignment if s.is_fetchable and not s.is_in(self._topic_id(s))]:
            text = f"{state.target} was deleted and created again"
            _log.warning("%s; reading continues in the new topic", text)
            # All of its records are new. In a group other members may have read some, and the coordinator knows.
            is_shared = self.locator.find_committed is not None
            state.move(AT_COMMITTED if is_shared else AT_EARLIEST, self.assignment.next_generation())
            if self._reset is None and not is_shared:
                state.error = OffsetMissing(f"{text}; seek somewhere or set auto_offset_reset")
                asyncio.get_running_loop().call_soon(self._tell)  # the lock is held now
            self._drop_stale()

    def _topic_id(self, state: PartitionState) -> UUID | None:
        topic = self._cluster.view.topics.get(state.target.topic)
        return None if topic is None or topic.topic_id == ZERO_UUID else topic.topic_id

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
        """Find the partitions of the subscription; those that are added later are read from their beginning."""
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
                    discovery.note(time.monotonic())  # reading continues, and the next search may succeed
            self._tell()
        finally:
            discovery.is_running = False
            self._wake.set()

    async def _learn(self, wanted: list[tuple[PartitionState, int]]) -> None:
        """Request the metadata of unknown topics, and check that they have the partitions."""
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
        """Find the offsets of times, words and commits. After a failure, wait before they are looked up again."""
        try:
            places = {state.target: state.place for state, _ in wanted if state.place is not None}
            ids = {state.target: self._topic_id(state) for state, _ in wanted}
            refused = {state.target: Located(*state.refused_at) for state, _ in wanted if state.refused_at is not None}
            outcomes = await self.locator.locate(places, refused)
            with self.lock:
                for state, generation in wanted:
                    outcome = outcomes.get(state.target)
                    if outcome is None or not self.assignment.is_current(state, generation):
                        continue
                    if isinstance(outcome, Exception):
                        state.error = outcome
                    else:
                        if state.target in refused:
                            _log_place(state.target, outcome, is_kept=outcome == refused[state.target])
                        state.settle(*outcome)
                        state.topic_id = ids[state.target]  # the topic may have been created again meanwhile
            self._tell()
            if any(isinstance(outcome, Exception) for outcome in outcomes.values()):
                await asyncio.sleep(self._cluster.backoff.wait_s(1))
        finally:
            self._release(state for state, _ in wanted)

    def _blame(self, pairs: Iterable[tuple[PartitionState, int]], error: Exception) -> None:
        """Keep an error for the reader until it seeks the partitions."""
        with self.lock:
            for state, generation in pairs:
                if self.assignment.is_current(state, generation):
                    state.error = error
        self._tell()

    def condemn(self, state: PartitionState, generation: int, error: Exception) -> None:
        """Stop a partition at a record that cannot be read, and raise the error until the reader seeks it."""
        with self.lock:
            if self.assignment.is_current(state, generation):
                state.move(Place(offset=state.position), self.assignment.next_generation())
                state.error = error

    # --- one fetch

    async def _fetch(self, leader_id: int, asked: dict[TopicPartition, tuple[PartitionState, int, int]]) -> None:
        """Fetch once from one leader and, after a failure, wait before the next fetch."""
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
        # The metadata may have changed since this fetch was planned: an old offset means nothing in a new topic.
        asked = {target: each for target, each in asked.items() if each[0].is_in(topics[target.topic].topic_id)}
        if not asked:
            return
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
        failures = {}
        hints = {}
        for item in reply.responses:
            name = item.topic or names.get(item.topic_id, "")
            for answer in item.partitions:
                target = TopicPartition(name, answer.partition_index)
                if target in asked and (failure := self._accept(*asked[target], answer)) is not None:
                    failures[target] = failure
                    if (hint := read_hint(answer.current_leader)) is not None:
                        hints[target] = hint
        moved = self._cluster.learn(
            hints, reply.node_endpoints, {name: topic.topic_id for name, topic in topics.items()}
        )
        # If the answer names another leader there is nothing to wait for (KIP-951).
        for target, failure in failures.items():
            if target not in moved:
                raise failure

    def _accept(
        self, state: PartitionState, generation: int, offset: int, answer: FetchResponsePartition
    ) -> ApiError | None:
        """Keep the data of an answer; returns its error if that is retriable."""
        if answer.error_code:
            return self._refuse(state, generation, offset, ErrorCode(answer.error_code))
        try:
            fetched = read_fetched(state.target.topic, offset, answer)
        except RecordError as error:
            self._blame([(state, generation)], error.at(state.target))
            return None
        with self.lock:
            if not self.assignment.is_current(state, generation):
                return None
            state.end_offset = readable_end(answer, self._options.isolation)
            if fetched is None:
                return None
            state.fetch_offset = fetched.next_offset
            self.assignment.put_last(state)
            self._put(Chunk(fetched, state, generation))
        self._tell()
        return None

    def _refuse(self, state: PartitionState, generation: int, offset: int, code: ErrorCode) -> ApiError | None:
        error = ApiError(code, f"reading {state.target} at offset {offset}")
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            # Damage on the broker's disk does not go away; the reader must know, and may seek behind it.
            if code.retriable and code is not ErrorCode.CORRUPT_MESSAGE:
                return error
            self._blame([(state, generation)], error)
            return None
        if self._reset is None:
            text = f"{state.target} has no offset {offset}; seek to another offset or set auto_offset_reset"
            self._blame([(state, generation)], ApiError(code, text))
            return None
        with self.lock:
            if self.assignment.is_current(state, generation):
                text = "the leader of %s does not have offset %d; looking up where reading continues"
                _log.warning(text, state.target, offset)
                state.refuse(self._reset, self.assignment.next_generation())
        return None

    async def _recover(
        self,
        leader_id: int,
        asked: dict[TopicPartition, tuple[PartitionState, int, int]],
        error: ClientError | ApiError,
    ) -> None:
        """Wait and refresh the leaders; raise the error to the reader if that has not helped for long."""
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


def _log_place(target: TopicPartition, at: Located, *, is_kept: bool) -> None:
    """Log where the reading of a partition continues after its leader did not have the position."""
    if is_kept:
        _log.info("reading of %s continues at offset %d, which the leader has after all", target, at.offset)
    else:
        _log.warning("reading of %s continues at offset %d, as auto_offset_reset says", target, at.offset)
