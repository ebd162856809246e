"""A follower's task: one connection to one leader, over which many partitions are fetched.

Theory of operation. Each round asks for all partitions that are due, in one request of an incremental session, and
applies what comes: bytes are appended as they are, a log that is not the leader's is cut, errors make one
partition wait while the others go on. An answer counts only if the partition still follows the leader epoch that it
was asked in, and its log ends where the fetch began. Partitions that are added while the leader waits for bytes do not
wait with it: the connection is given up and made anew with all of them, so that an election is not held up by a quiet
partition.

What is far behind is asked for ahead: the next fetch is on its way while the bytes of the last one are appended, so
two answers may be in memory. `machines.replica.follower` says when that may be.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

from tailrace.base.clock import Clock
from tailrace.base.limits import FETCHER_GATHER_S, FETCHER_TURN_BYTES_MAX, THROTTLE_REST_MS_MAX
from tailrace.base.task import ignore_exception
from tailrace.client.connection import Connection
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.config.broker import BrokerConfig
from tailrace.machines.replica.epoch import EpochEnd
from tailrace.machines.replica.follower import (
    Position,
    Reaction,
    decide_reset,
    decide_truncation,
    may_ask_ahead,
    react,
)
from tailrace.machines.replica.session import FollowerSession
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.fetch import FetchResponse, FetchResponsePartition
from tailrace.records.batch import BatchHeader
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_batches
from tailrace.runtime.partition import Partition
from tailrace.runtime.peer import Peer
from tailrace.runtime.replication.followed import Followed, Key, Wanted
from tailrace.runtime.replication.known_producer import read_producers
from tailrace.runtime.replication.request import ask_end, ask_start, build_fetch
from tailrace.runtime.replication.start_checkpoint import StartCheckpoints
from tailrace.runtime.replication.throttle import ReplicationThrottle
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.runtime")

_LOST = (BrokerUnavailable, RequestTimeout, RemoteProtocolError, OSError)
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
# After a topic is created or a leader elected, follower and leader learn of it one after the other.
_PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
)
_PASSING_MS_MAX = 10_000  # every broker has heard of a change by then, unless something is wrong


class Asking(NamedTuple):
    """A fetch that is under way."""

    connection: Connection
    reply: asyncio.Task[FetchResponse]


class Delivery(NamedTuple):
    """The answer for one partition, and its batches once they have been looked for."""

    followed: Followed
    answer: FetchResponsePartition
    batches: list[tuple[int, BatchHeader]] | None = None


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
        start_checkpoints: StartCheckpoints,
    ) -> None:
        self._peer = peer
        self._throttle = throttle
        self._start_checkpoints = start_checkpoints
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
        # Those whose own retention has moved the log start, or that had not checkpointed it at the last fetch. The
        # leader has to know it.
        self._shortened: dict[Key, None] = {}
        self._session: FollowerSession[Key, Wanted] = FollowerSession()
        self._changed = asyncio.Event()
        self._asking: Asking | None = None
        self._is_silent = False  # whether the log file knows that the leader cannot be reached
        self._has_passed_over = False  # whether the leader has told something that did not count

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Begin to fetch a partition, in its current leader epoch."""
        followed = Followed(partition)
        key = followed.key
        self._followed[key] = followed
        self._delayed.pop(key, None)
        self._moved[key] = None
        partition.on_retention = partial(self._shortened.setdefault, key)
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition; an answer that is under way is dropped."""
        key = partition.topic_id, partition.index
        self._followed.pop(key, None)
        self._delayed.pop(key, None)
        self._moved.pop(key, None)
        self._shortened.pop(key, None)
        self._session.drop(key)

    def wake(self) -> None:
        """Fetch at once, because the leader may have come back."""
        for followed in self._delayed.values():
            followed.retry_ms = 0
        self._changed.set()

    async def run(self) -> None:
        """Fetch until the task is cancelled."""
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
            await self._hang_up()

    async def _lost(self, error: Exception | None) -> None:
        if error is not None and not self._is_silent:
            log.warning("cannot fetch from broker %d: %s", self._peer.broker_id, error)
            self._is_silent = True
        await self._hang_up()
        await self._wait(self._config().replica_fetch_backoff_ms / 1000)

    async def _hang_up(self) -> None:
        """Close the connection and drop the fetch that is under way on it."""
        self._begin_again()
        asking, self._asking = self._asking, None
        await self._peer.close()
        if asking is not None:
            asking.reply.cancel()
            await asyncio.gather(asking.reply, return_exceptions=True)

    def _begin_again(self) -> None:
        """Begin a new session, in which each partition is fetched from its actual log end offset."""
        self._session.reset()
        self._moved.update((key, None) for key in self._followed if key not in self._delayed)

    async def _wait(self, timeout_s: float | None) -> None:
        """Wait for a change, for at most this time."""
        with suppress(TimeoutError):
            # Not asyncio.wait_for: in Python 3.11 it forgets a cancellation that comes together with the change.
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    async def _fetch(self) -> None:
        asking = self._asking
        if asking is None:
            now_ms = self._clock.monotonic_ms()
            for key in [key for key, followed in self._delayed.items() if self._is_due(followed, now_ms)]:
                del self._delayed[key]
                self._moved[key] = None
            if len(self._delayed) == len(self._followed):
                later = [followed.retry_ms for followed in self._delayed.values()]
                await self._wait((min(later) - now_ms) / 1000 if later else None)
                return
            asking = self._ask(await self._peer.connect())
        response = await self._answer(asking)
        if response is not None:
            await self._apply(asking.connection, response)

    def _is_due(self, followed: Followed, now_ms: float) -> bool:
        """Whether to fetch a delayed partition again; a throttled one is delayed further while the rate is exceeded."""
        if followed.retry_ms > now_ms:
            return False
        if followed.is_throttled and self._throttle.is_exceeded and self._throttle.applies_to(followed.partition):
            followed.retry_ms = now_ms + THROTTLE_REST_MS_MAX
            return False
        followed.is_throttled = False
        return True

    # --- ask

    def _ask(self, connection: Connection) -> Asking:
        """Send the next fetch: it names the partitions that have moved, and the session knows the others."""
        self._changed.clear()
        if self._shortened:
            known = (key for key in self._shortened if key in self._followed and key not in self._delayed)
            self._moved.update((key, None) for key in known)
            self._shortened.clear()
        for key in self._moved:
            self._session.want(key, self._followed[key].want())
            if not self._followed[key].is_start_durable:
                self._shortened[key] = None
        self._moved.clear()
        config, broker_epoch = self._config(), self._broker_epoch()
        if broker_epoch != self._told_epoch:
            # The leader knows a partition that has no news by what was said of it last, in an older life perhaps.
            self._session.reset()
            self._told_epoch = broker_epoch
        request = build_fetch(config, self._broker_id, broker_epoch, self._session.ask())
        timeout_ms = config.replica_socket_timeout_ms + request.max_wait_ms
        reply = asyncio.ensure_future(connection.request(request, FetchResponse, timeout_ms=timeout_ms))
        reply.add_done_callback(ignore_exception)  # the fetcher may be cancelled while it closes the connection
        self._asking = Asking(connection, reply)
        return self._asking

    async def _answer(self, asking: Asking) -> FetchResponse | None:
        """Wait for the leader's answer; return None if partitions were added before it came."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((asking.reply, changed), return_when=asyncio.FIRST_COMPLETED)
            if not asking.reply.done():
                await asyncio.wait((asking.reply,), timeout=FETCHER_GATHER_S)
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)
        if asking.reply.done():
            self._asking = None
            return asking.reply.result()
        await self._hang_up()
        return None

    # --- apply

    async def _apply(self, connection: Connection, response: FetchResponse) -> None:
        if response.error_code:
            code = ErrorCode(response.error_code)
            if code not in _SESSION_ERRORS:
                raise ApiError(code, f"broker {self._peer.broker_id} rejected a fetch")
            self._begin_again()
            return
        self._session.answered(response.session_id)
        counting = list(self._counting(response))
        self._moved.update((followed.key, None) for followed, _ in counting)
        if self._has_passed_over or len(counting) < sum(len(topic.partitions) for topic in response.responses):
            # What was passed over the leader takes for told, and says nothing of it until there is more.
            self._has_passed_over = False
            self._begin_again()
        now, later = [], []
        for followed, answer in counting:
            if not self._is_followed(followed):
                continue
            if answer.error_code:
                await self._react(connection, followed, ErrorCode(answer.error_code))
            elif (batches := self._find_ahead(followed, answer)) is not None:
                later.append(Delivery(followed, answer, batches))
            else:
                now.append(Delivery(followed, answer))
        await self._take_all(now)
        if later:
            self._ask(connection)
            # One turn in which the request is written, and one after which event loops send what was written.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await self._take_all(later)

    def _counting(self, response: FetchResponse) -> Iterator[tuple[Followed, FetchResponsePartition]]:
        """Return the answers that still count: the role of a partition may have changed since the fetch was sent."""
        for topic in response.responses:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                followed = self._followed.get(key)
                if followed is None or key in self._moved or key in self._delayed or not followed.is_current:
                    continue
                if followed.is_awaited:
                    yield followed, answer

    def _find_ahead(self, followed: Followed, answer: FetchResponsePartition) -> list[tuple[int, BatchHeader]] | None:
        """Return the batches of an answer if the next fetch may be sent before they are appended."""
        partition = followed.partition
        if (
            not answer.records
            or answer.diverging_epoch is not None
            or answer.high_watermark <= partition.log.log_end_offset + 1
        ):
            return None
        try:
            batches = list(read_batches(cast("memoryview", answer.records)))
        except CorruptBatch:
            return None  # it is found again, and told of, when the batches before are appended
        if not batches or self._throttle.applies_to(partition):
            return None
        last = batches[-1][1]
        received = Position(last.next_offset, last.partition_leader_epoch)
        if not may_ask_ahead(partition.log, received, answer.high_watermark):
            return None
        followed.expect(received)
        return batches

    async def _take_all(self, deliveries: list[Delivery]) -> None:
        turn_bytes = 0
        for delivery in deliveries:
            if not self._is_followed(delivery.followed):
                continue
            turn_bytes += self._take(delivery)
            if turn_bytes >= FETCHER_TURN_BYTES_MAX:
                turn_bytes = 0
                await asyncio.sleep(0)
        for delivery in deliveries:
            await self._flush(delivery.followed)
        await self._save_starts(deliveries)

    def _is_followed(self, followed: Followed) -> bool:
        """Whether an answer still counts: the partition may have been removed while another task ran."""
        known = self._followed.get(followed.key)
        if known is followed and followed.is_current:
            return True
        self._has_passed_over |= known is not None
        return False

    def _take(self, delivery: Delivery) -> int:
        """Apply an answer without an error, and return how many bytes were appended."""
        followed, answer, batches = delivery
        partition = followed.partition
        try:
            if answer.diverging_epoch is not None:
                self._truncate(partition, EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset))
                return 0
            data, size_bytes = cast("memoryview", answer.records), 0
            if data:
                size_bytes = partition.append_replicated(data, followed.leader_epoch, batches)
                if size_bytes == 0:
                    raise CorruptBatch("a fetch returned less than one batch")
            partition.learn(answer.high_watermark, answer.log_start_offset)
            followed.succeed()
            if answer.high_watermark > partition.log.log_end_offset and self._throttle.applies_to(partition):
                self._throttle.take(size_bytes)
                if self._throttle.is_exceeded:
                    followed.is_throttled = True
                    self._put_off(followed, self._clock.monotonic_ms() + THROTTLE_REST_MS_MAX)
            return size_bytes
        except (CorruptBatch, StorageError) as error:
            self._delay(followed, str(error))
            return 0

    def _truncate(self, partition: Partition, diverging: EpochEnd) -> None:
        end_offset = partition.log.log_end_offset
        offset = decide_truncation(partition.log, diverging, partition.high_watermark)
        log.info(
            "%s: epoch %d of the leader ends at offset %d; truncated from offset %d to %d",
            *(partition.name, diverging.epoch, diverging.end_offset, end_offset, offset),
        )
        partition.truncate_to(offset)

    async def _react(self, connection: Connection, followed: Followed, code: ErrorCode) -> None:
        reaction = react(code)
        if reaction is Reaction.RESET:
            try:
                await self._reset(connection, followed)
            except ApiError as error:
                self._delay(followed, str(error), passes=error.code in _PASSING)
            except StorageError as error:
                self._delay(followed, str(error))
        else:
            # What waits for the image is woken by it, and tries now and then all the same.
            self._delay(followed, code.name, passes=code in _PASSING)

    def _delay(self, followed: Followed, reason: str, *, passes: bool = False) -> None:
        """Fetch the partition again later; log one warning, at once or when an error that should pass does not."""
        now_ms = self._clock.monotonic_ms()
        if followed.failed_since_ms is None:
            followed.failed_since_ms = now_ms
        if not followed.is_told:
            followed.is_told = not passes or now_ms - followed.failed_since_ms >= _PASSING_MS_MAX
            level = logging.WARNING if followed.is_told else logging.DEBUG
            name, leader_id = followed.partition.name, self._peer.broker_id
            log.log(level, "%s cannot be fetched from broker %d: %s", name, leader_id, reason)
        self._put_off(followed, now_ms + self._config().replica_fetch_backoff_ms)

    def _put_off(self, followed: Followed, until_ms: float) -> None:
        """Do not fetch a partition before this time."""
        followed.retry_ms = until_ms
        key = followed.key
        if self._followed.get(key) is followed:
            self._delayed[key] = followed
            self._moved.pop(key, None)
            self._session.drop(key)

    async def _reset(self, connection: Connection, followed: Followed) -> None:
        """Truncate the log or restart it at another offset, because the leader's log does not hold this log's end."""
        partition = followed.partition
        latest = await ask_end(connection, self._broker_id, followed)
        earliest, producers = await ask_start(connection, self._broker_id, followed)
        if not followed.is_current:
            return
        reset = decide_reset(partition.log.log_end_offset, earliest, latest)
        if reset is not None:
            log.warning(
                "%s ends at offset %d, but the leader's log has offsets %d to %d; it continues at offset %d",
                *(partition.name, partition.log.log_end_offset, earliest, latest, reset.offset),
            )
            entries = read_producers(producers, self._clock.now_ms())
            partition.truncate_to(reset.offset, is_full=reset.is_full, producers=entries)

    async def _flush(self, followed: Followed) -> None:
        """Flush the log as `flush.messages` requires, before the next fetch acknowledges the records."""
        partition = followed.partition
        if not partition.log.is_flush_wanted or partition.is_retired:
            return
        flush = partition.log.begin_flush()
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, flush.run)
            partition.log.end_flush(flush)
        except StorageError as error:
            self._delay(followed, str(error))

    async def _save_starts(self, deliveries: list[Delivery]) -> None:
        """Checkpoint log starts that have moved, before the next fetch tells them: DeleteRecords waits for that."""
        moved = [each.followed.partition.log for each in deliveries if not each.followed.is_start_durable]
        await self._start_checkpoints.save(moved)
