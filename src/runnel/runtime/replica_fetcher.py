"""A follower's task: one connection to one leader, over which many partitions are fetched.

Theory of operation. Each round asks for all partitions that are due, in one request of an incremental session, and
applies what comes: bytes are appended as they are, a log that is not the leader's is cut, errors make one
partition wait while the others go on. An answer counts only if the partition still follows the leader epoch that it
was asked in. Partitions that are added while the leader waits for bytes do not wait with it: the
connection is given up and made anew with all of them, so that an election is not held up by a quiet partition.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import NamedTuple, cast
from uuid import UUID

from runnel.base.clock import Clock
from runnel.base.limits import FETCHER_GATHER_S, FETCHER_TURN_BYTES_MAX
from runnel.client.connection import Connection
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.config.broker import BrokerConfig
from runnel.machines.replica.epoch import EpochEnd
from runnel.machines.replica.follower import Reaction, decide_reset, decide_truncation, next_position, react
from runnel.machines.replica.session import FollowerSession
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from runnel.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from runnel.records.error import CorruptBatch
from runnel.runtime.partition import Partition
from runnel.runtime.peer import Peer
from runnel.runtime.replication_throttle import ReplicationThrottle
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")

LATEST, EARLIEST = -1, -2
_LOST = (BrokerUnavailable, RequestTimeout, RemoteProtocolError, OSError)
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

Key = tuple[UUID, int]


class Wanted(NamedTuple):
    """What is asked of one partition; the leader remembers it until something of it changes."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Followed:
    """A partition that this fetcher fetches, in one leader epoch."""

    __slots__ = ("is_told", "leader_epoch", "partition", "retry_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.retry_ms: float = 0
        self.is_told = False  # whether the log file knows of its trouble

    @property
    def is_current(self) -> bool:
        partition = self.partition
        return not partition.is_leader and not partition.is_retired and partition.leader_epoch == self.leader_epoch


class ReplicaFetcher:
    """Fetches some partitions from one leader."""

    def __init__(
        self,
        peer: Peer,
        broker_id: int,
        broker_epoch: Callable[[], int],
        config: Callable[[], BrokerConfig],
        clock: Clock,
        worker: Executor,
        throttle: ReplicationThrottle,
    ) -> None:
        self._peer = peer
        self._throttle = throttle
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._told_epoch: int | None = None
        self._config = config
        self._clock = clock
        self._worker = worker
        self._followed: dict[Key, Followed] = {}
        # Of those the ones that are asked for again later, and the ones of which the session does not know yet.
        self._delayed: dict[Key, Followed] = {}
        self._moved: dict[Key, None] = {}
        self._session: FollowerSession[Key, Wanted] = FollowerSession()
        self._changed = asyncio.Event()
        self._is_silent = False  # whether the log file knows that the leader cannot be reached

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Fetch for a partition in its leader epoch of now."""
        key = partition.topic_id, partition.index
        self._followed[key] = Followed(partition)
        self._delayed.pop(key, None)
        self._moved[key] = None
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        """Fetch for it no more; what is on its way is dropped."""
        key = partition.topic_id, partition.index
        self._followed.pop(key, None)
        self._delayed.pop(key, None)
        self._moved.pop(key, None)
        self._session.drop(key)

    def wake(self) -> None:
        """Try at once: the leader may be there again."""
        for followed in self._delayed.values():
            followed.retry_ms = 0
        self._changed.set()

    async def run(self) -> None:
        """Fetch for ever."""
        try:
            while True:
                try:
                    await self._fetch()
                    self._is_silent = False
                except _LOST as error:
                    await self._lost(error)
                except ApiError as error:
                    await self._lost(error)
                except Exception:
                    log.exception("fetching from broker %d failed", self._peer.broker_id)
                    await self._lost(None)
        finally:
            await self._peer.close()

    async def _lost(self, error: Exception | None) -> None:
        if error is not None and not self._is_silent:
            log.warning("cannot fetch from broker %d: %s", self._peer.broker_id, error)
            self._is_silent = True
        self._session.reset()
        await self._peer.close()
        await self._wait(self._config().replica_fetch_backoff_ms / 1000)

    async def _wait(self, timeout_s: float | None) -> None:
        """Wait for a change, for so long at most."""
        with suppress(TimeoutError):
            # Not asyncio.wait_for: in Python 3.11 it forgets a cancellation that comes together with the change.
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    async def _fetch(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for key in [key for key, followed in self._delayed.items() if followed.retry_ms <= now_ms]:
            del self._delayed[key]
            self._moved[key] = None
        if len(self._delayed) == len(self._followed):
            later = [followed.retry_ms for followed in self._delayed.values()]
            await self._wait((min(later) - now_ms) / 1000 if later else None)
            return
        connection = await self._peer.connect()
        self._changed.clear()
        for key in self._moved:
            followed = self._followed[key]
            storage = followed.partition.log
            wanted = Wanted(followed.leader_epoch, *next_position(storage), storage.log_start_offset)
            self._session.want(key, wanted)
        self._moved.clear()
        response = await self._ask(connection, self._build())
        if response is not None:
            await self._apply(connection, response)

    # --- ask

    def _build(self) -> FetchRequest:
        config = self._config()
        broker_epoch = self._broker_epoch()
        if broker_epoch != self._told_epoch:
            # The leader knows a partition that has no news by what was said of it last, in an older life perhaps.
            self._session.reset()
            self._told_epoch = broker_epoch
        session_id, epoch, named, forgotten = self._session.ask()
        topics: dict[UUID, FetchRequestTopic] = {}
        for (topic_id, index), item in named.items():
            topic = topics.setdefault(topic_id, FetchRequestTopic(topic_id=topic_id))
            topic.partitions.append(
                FetchRequestPartition(
                    partition=index,
                    current_leader_epoch=item.leader_epoch,
                    fetch_offset=item.fetch_offset,
                    last_fetched_epoch=item.last_fetched_epoch,
                    log_start_offset=item.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        gone: dict[UUID, FetchRequestForgottenTopic] = {}
        for topic_id, index in forgotten:
            gone.setdefault(topic_id, FetchRequestForgottenTopic(topic_id=topic_id)).partitions.append(index)
        return FetchRequest(
            replica_state=FetchRequestReplicaState(replica_id=self._broker_id, replica_epoch=broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session_id,
            session_epoch=epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    async def _ask(self, connection: Connection, request: FetchRequest) -> FetchResponse | None:
        """The leader's answer; None if there are more partitions to ask for before it came."""
        config = self._config()
        timeout_ms = config.replica_socket_timeout_ms + request.max_wait_ms
        asking = asyncio.ensure_future(connection.request(request, FetchResponse, timeout_ms=timeout_ms))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((asking, changed), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait((asking,), timeout=FETCHER_GATHER_S)
            if asking.done():
                return asking.result()
            self._session.reset()
            await self._peer.close()
            return None
        finally:
            for task in (asking, changed):
                task.cancel()
            await asyncio.gather(asking, changed, return_exceptions=True)

    # --- apply

    async def _apply(self, connection: Connection, response: FetchResponse) -> None:
        if response.error_code:
            code = ErrorCode(response.error_code)
            if code not in _SESSION_ERRORS:
                raise ApiError(code, f"broker {self._peer.broker_id} refuses to be fetched from")
            self._session.reset()
            return
        self._session.answered(response.session_id)
        turn_bytes = 0
        appended = []
        for topic in response.responses:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                followed = self._followed.get(key)
                # Since it was asked for, the image may have said something else; then it is asked for anew.
                if followed is None or key in self._moved or not followed.is_current:
                    continue
                self._moved[key] = None
                if answer.error_code:
                    await self._react(connection, followed, ErrorCode(answer.error_code))
                    continue
                turn_bytes += self._take(followed, answer)
                appended.append(followed.partition)
                if turn_bytes >= FETCHER_TURN_BYTES_MAX:
                    turn_bytes = 0
                    await asyncio.sleep(0)
        await self._flush(appended)

    def _take(self, followed: Followed, answer: FetchResponsePartition) -> int:
        """Do what an answer without an error wants; how many bytes were appended."""
        partition = followed.partition
        try:
            if answer.diverging_epoch is not None:
                self._truncate(partition, EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset))
                return 0
            data = answer.records
            if isinstance(data, list):
                data = b"".join(data)
            size_bytes = 0
            if data:
                size_bytes = partition.append_replicated(cast("memoryview", data), followed.leader_epoch)
                if size_bytes == 0:
                    raise CorruptBatch("a fetch brought less than one batch")
            partition.learn(answer.high_watermark, answer.log_start_offset)
            followed.is_told = False
            if answer.high_watermark > partition.log.log_end_offset and self._throttle.applies_to(partition):
                self._throttle.take(size_bytes)
                if self._throttle.is_exceeded:
                    self._put_off(followed, self._throttle.resume_ms)
            return size_bytes
        except (CorruptBatch, StorageError) as error:
            self._delay(followed, str(error))
            return 0

    def _truncate(self, partition: Partition, diverging: EpochEnd) -> None:
        end_offset = partition.log.log_end_offset
        offset = decide_truncation(partition.log, diverging, partition.high_watermark)
        log.info(
            "%s: the leader's epoch %d ends at %d; cut from %d to %d",
            *(partition.name, diverging.epoch, diverging.end_offset, end_offset, offset),
        )
        partition.truncate_to(offset)

    async def _react(self, connection: Connection, followed: Followed, code: ErrorCode) -> None:
        reaction = react(code)
        if reaction is Reaction.RESET:
            try:
                await self._reset(connection, followed)
            except (ApiError, StorageError) as error:
                self._delay(followed, str(error))
        else:
            # What waits for the image is woken by it, and tries now and then all the same.
            self._delay(followed, code.name)

    def _delay(self, followed: Followed, reason: str) -> None:
        if not followed.is_told:
            name, leader_id = followed.partition.name, self._peer.broker_id
            log.warning("%s cannot be fetched from broker %d: %s", name, leader_id, reason)
            followed.is_told = True
        self._put_off(followed, self._clock.monotonic_ms() + self._config().replica_fetch_backoff_ms)

    def _put_off(self, followed: Followed, until_ms: float) -> None:
        """Ask for a partition no more before then."""
        followed.retry_ms = until_ms
        key = followed.partition.topic_id, followed.partition.index
        if self._followed.get(key) is followed:
            self._delayed[key] = followed
            self._moved.pop(key, None)
            self._session.drop(key)

    async def _reset(self, connection: Connection, followed: Followed) -> None:
        """The leader has nothing at the end of this log: begin or end where it does."""
        partition = followed.partition
        latest = await self._offset(connection, followed, LATEST)
        earliest = await self._offset(connection, followed, EARLIEST)
        if not followed.is_current:
            return
        reset = decide_reset(partition.log.log_end_offset, earliest, latest)
        if reset is not None:
            log.warning(
                "%s ends at %d, the leader's log goes from %d to %d; it goes on at %d",
                *(partition.name, partition.log.log_end_offset, earliest, latest, reset.offset),
            )
            partition.truncate_to(reset.offset, is_full=reset.is_full)

    async def _offset(self, connection: Connection, followed: Followed, timestamp: int) -> int:
        partition = followed.partition
        asked = ListOffsetsRequestPartition(
            partition_index=partition.index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._broker_id, topics=[ListOffsetsRequestTopic(name=partition.topic, partitions=[asked])]
        )
        response = await connection.request(request, ListOffsetsResponse)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), "the leader does not say where its log begins and ends")
        return answer.offset

    async def _flush(self, partitions: list[Partition]) -> None:
        """Force to disk what flush.messages wants there, before the next fetch acknowledges it."""
        for partition in partitions:
            if not partition.log.is_flush_wanted or partition.is_retired:
                continue
            flush = partition.log.begin_flush()
            try:
                await asyncio.get_running_loop().run_in_executor(self._worker, flush.run)
                partition.log.end_flush(flush)
            except StorageError as error:
                log.error("%s could not be flushed: %s", partition.name, error)
