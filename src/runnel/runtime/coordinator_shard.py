"""The shell around one coordinator: its decisions written, replayed and answered in their order."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from runnel.base.clock import Clock
from runnel.machines.append_error import answer_to_append_error
from runnel.machines.decision import Decision, Reply, Timer, Token
from runnel.machines.log_replay import LogEntry, TransactionEnd
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.records.batch import NO_PRODUCER_ID
from runnel.runtime.commit_wait import CommitEnd
from runnel.runtime.coordinator_log import CoordinatorLog
from runnel.runtime.group_commit import FlushEnd
from runnel.runtime.partition import Partition
from runnel.runtime.transaction_guard import TransactionGuard

log = logging.getLogger("runnel.runtime")

Answer = asyncio.Future[Message]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Machine(Protocol[R]):
    """A coordinator that decides and does nothing."""

    def replay(self, record: R) -> None:
        """Take in one record, live or from the log."""
        ...

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision[R]:
        """What was to happen at this time."""
        ...

    def on_loaded(self, now_ms: int) -> Decision[R]:
        """The log has been replayed to its end."""
        ...

    def on_unloaded(self) -> Decision[R]:
        """Another broker coordinates from now on."""
        ...


M = TypeVar("M", bound=Machine[Any])
M_contra = TypeVar("M_contra", contravariant=True)


class ShardCounters(Protocol[M_contra, R_contra]):
    """Counts what shards do."""

    def loaded(self, machine: M_contra, name: str, record_count: int, duration_ms: int) -> None:
        """A machine has been loaded from its partition."""
        ...

    def wrote(self, machine: M_contra, records: Sequence[R_contra], timer_key: tuple[str, ...] | None) -> None:
        """Records were written and not yet replayed, because of a timer or a request."""
        ...


class CoordinatorShard(Generic[M, R]):
    """The machine of one partition of a coordinator's topic."""

    def __init__(
        self,
        machine: M,
        coordinator_log: CoordinatorLog[R],
        clock: Clock,
        set_timer: "Callable[[CoordinatorShard[M, R], Timer], None]",
        counters: ShardCounters[M, R],
        commit_timeout_ms: int,
    ) -> None:
        """`commit_timeout_ms` is how long what was written may take to be on all replicas in sync."""
        self.machine = machine
        self.is_loaded = False
        self.is_broken = False
        self._log = coordinator_log
        self._clock = clock
        self._set_timer = set_timer
        self._counters = counters
        self._commit_timeout_ms = commit_timeout_ms
        self._leader_epoch = coordinator_log.partition.leader_epoch

    @property
    def partition(self) -> Partition:
        """Where the machine's records are."""
        return self._log.partition

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted, is led by another broker or was elected anew."""
        partition = self._log.partition
        return not partition.is_leader or partition.leader_epoch != self._leader_epoch

    async def load(self) -> None:
        """Replay the log; the machine takes requests from then on."""
        count = 0
        begun_ms = self._clock.monotonic_ms()
        await self._election_settled()
        async for entries in self._log.read():
            for entry in entries:
                self._replay(entry)
            count += len(entries)
        if self.is_gone:
            return
        self.is_loaded = True
        duration_ms = self._clock.monotonic_ms() - begun_ms
        self._counters.loaded(self.machine, self._log.partition.name, count, duration_ms)
        self.carry_out(self.machine.on_loaded(self._clock.now_ms()))

    async def _election_settled(self) -> None:
        """Wait until what was in the log at the election is committed.

        What is not could be cut away yet, and nobody may be told of it.
        """
        partition = self._log.partition
        while not self.is_gone and (end := partition.when_committed(partition.epoch_start_offset)) is not None:
            await end

    def ask(self, decide: Callable[[M, int, Token], Decision[R]], guard: TransactionGuard | None = None) -> Answer:
        """Have the machine decide; the reply comes when what it rests on is committed.

        `guard` speaks for the transaction of a decision that has a producer.
        """
        self.check_loaded()
        answer: Answer = asyncio.get_running_loop().create_future()
        self.carry_out(decide(self.machine, self._clock.now_ms(), answer), guard=guard)
        return answer

    def check_loaded(self) -> None:
        if self.is_broken:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if not self._log.partition.is_sure_to_lead:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    async def committed(self) -> None:
        """Return when all that the machine knows by now is committed; ApiError if it may never be."""
        partition = self._log.partition
        end_offset = partition.log.log_end_offset
        if (flush := partition.flush_end) is not None:
            await asyncio.wait([flush])
            self._check_flush(flush)
        if (end := self._commit_end(end_offset)) is not None and (code := await end) is not None:
            raise ApiError(answer_to_append_error(code))

    def on_timer(self, key: tuple[str, ...]) -> None:
        """A timer of the machine's has come."""
        self.carry_out(self.machine.on_timer(self._clock.now_ms(), key), timer_key=key)

    def unload(self) -> None:
        """Send everybody away who waits."""
        if self.is_loaded:
            self.is_loaded = False
            self._answer(self.machine.on_unloaded().replies)

    def carry_out(
        self,
        decision: Decision[R],
        *,
        timer_key: tuple[str, ...] | None = None,
        guard: TransactionGuard | None = None,
    ) -> None:
        """Do what the machine has decided, in the order that `machines.decision` asks for."""
        for timer in decision.timers:
            self._set_timer(self, timer)
        if decision.records:
            try:
                offset = self._log.append(
                    decision.records,
                    self._clock.now_ms(),
                    is_atomic=decision.is_atomic,
                    producer=decision.producer,
                    guard=guard,
                )
            except ApiError as error:
                self._fail(decision, error)
                return
            self._counters.wrote(self.machine, decision.records, timer_key)
            producer_id = NO_PRODUCER_ID if decision.producer is None else decision.producer.producer_id
            for place, record in enumerate(decision.records, offset):
                self._replay(LogEntry(record, place, producer_id))
        self.carried_out(decision)
        if decision.replies:
            self._answer_when_committed(decision.replies)

    def carried_out(self, decision: Decision[R]) -> None:
        """What else there is to do about a decision whose records are written and replayed."""

    def _replay(self, entry: LogEntry[R] | TransactionEnd) -> None:
        """Have the machine take in what stands in the log, live or when it is loaded."""
        if isinstance(entry, LogEntry):
            self.machine.replay(entry.record)

    def _fail(self, decision: Decision[R], error: ApiError) -> None:
        code = answer_to_append_error(error.code)
        log.warning("%s: a decision could not be written: %s", self._log.partition.name, error)
        if decision.failed is not None:
            self.carry_out(decision.failed(code))
        else:
            _refuse(decision.replies, code)

    def _answer_when_committed(self, replies: list[Reply]) -> None:
        partition = self._log.partition
        end_offset = partition.log.log_end_offset
        flush = partition.flush_end
        if flush is None:
            self._answer_at(end_offset, replies)
        else:
            flush.add_done_callback(lambda flush: self._answer_after_flush(flush, end_offset, replies))

    def _answer_after_flush(self, flush: FlushEnd, end_offset: int, replies: list[Reply]) -> None:
        try:
            self._check_flush(flush)
        except ApiError as error:
            _refuse(replies, error.code)
        else:
            self._answer_at(end_offset, replies)

    def _check_flush(self, flush: FlushEnd) -> None:
        if flush.cancelled() or flush.result() is not None:
            raise ApiError(answer_to_append_error(ErrorCode.KAFKA_STORAGE_ERROR))
        if self.is_gone:
            # The next leader may have cut away what was flushed, and have committed something else in its place.
            raise ApiError(answer_to_append_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _answer_at(self, end_offset: int, replies: list[Reply]) -> None:
        """Answer when everything below `end_offset` is on all replicas in sync; with one replica that is now."""
        end = self._commit_end(end_offset)
        if end is None:
            self._answer(replies)
        else:
            end.add_done_callback(lambda end: self._answer_after_commit(end, replies))

    def _answer_after_commit(self, end: CommitEnd, replies: list[Reply]) -> None:
        code = None if end.cancelled() else end.result()
        if code is None and not self._log.partition.is_sure_to_lead:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is None:
            self._answer(replies)
        else:
            _refuse(replies, answer_to_append_error(code))

    def _commit_end(self, end_offset: int) -> CommitEnd | None:
        end = self._log.partition.when_committed(end_offset)
        if end is not None:
            timer = asyncio.get_running_loop().call_later(self._commit_timeout_ms / 1000, _time_out, end)
            end.add_done_callback(lambda _: timer.cancel())
        return end

    def _answer(self, replies: list[Reply]) -> None:
        for reply in replies:
            answer = reply.token
            # Whoever asked may be gone by now.
            if isinstance(answer, asyncio.Future) and not answer.done():
                answer.set_result(reply.response)


def _time_out(end: CommitEnd) -> None:
    if not end.done():
        end.set_result(ErrorCode.REQUEST_TIMED_OUT)


def _refuse(replies: list[Reply], code: ErrorCode) -> None:
    for reply in replies:
        answer = reply.token
        if isinstance(answer, asyncio.Future) and not answer.done():
            answer.set_exception(ApiError(code))
