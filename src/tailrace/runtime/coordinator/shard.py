"""The shell around one coordinator's machine: it writes, replays and answers the machine's decisions in their order.

An invariant that fails here is a bug, after which the memory of the machine may differ from its log. The shard then
goes offline: it answers COORDINATOR_NOT_AVAILABLE, fires no timers, and says so in the log. It is not loaded again
before its partition is elected anew, because the same records would most likely fail again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tailrace.base.clock import Clock
from tailrace.base.invariant import InvariantError, invariant
from tailrace.machines.append_error import answer_to_append_error
from tailrace.machines.decision import Decision, Reply, Timer, Token
from tailrace.machines.log_replay import LogEntry, TransactionEnd
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.records.batch import NO_PRODUCER_ID
from tailrace.runtime.acknowledgement import when_acknowledged
from tailrace.runtime.coordinator.log import CoordinatorLog
from tailrace.runtime.partition import Partition
from tailrace.runtime.transaction.guard import TransactionGuard

log = logging.getLogger("tailrace.runtime")

Answer = asyncio.Future[Message]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Machine(Protocol[R]):
    """A coordinator as a pure machine: it decides, and the shard carries it out."""

    def replay(self, record: R) -> None:
        """Apply one record, live or while the log is loaded."""
        ...

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision[R]:
        """Decide what a timer that is due leads to."""
        ...

    def on_loaded(self, now_ms: int) -> Decision[R]:
        """Decide what to do first, after the log was replayed to its end."""
        ...

    def on_unloaded(self) -> Decision[R]:
        """Return the replies to all requests that wait, because another broker coordinates from now on."""
        ...


M = TypeVar("M", bound=Machine[Any])
M_contra = TypeVar("M_contra", contravariant=True)


class ShardCounters(Protocol[M_contra, R_contra]):
    """Counters of the work of shards."""

    def loaded(self, machine: M_contra, name: str, record_count: int, duration_ms: int) -> None:
        """Count the load of a machine from its partition."""
        ...

    def wrote(self, machine: M_contra, records: Sequence[R_contra], timer_key: tuple[str, ...] | None) -> None:
        """Count records that are written and not yet replayed; `timer_key` names the timer that caused them, if any."""
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
        acknowledgement_timeout_ms: int,
    ) -> None:
        """`acknowledgement_timeout_ms` is how long a decision may take to reach all in-sync replicas."""
        self.machine = machine
        self.is_loaded = False
        self.is_offline = False
        self._is_discarded = False
        self._log = coordinator_log
        self._clock = clock
        self._set_timer = set_timer
        self._counters = counters
        self._acknowledgement_timeout_ms = acknowledgement_timeout_ms
        self._leader_epoch = coordinator_log.partition.leader_epoch

    @property
    def partition(self) -> Partition:
        """The partition that stores the machine's records."""
        return self._log.partition

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted, is led elsewhere or was elected anew, or another shard serves it."""
        partition = self._log.partition
        return self._is_discarded or not partition.is_leader or partition.leader_epoch != self._leader_epoch

    # --- load and unload

    async def load(self) -> None:
        """Replay the log; the machine takes requests from then on. A shard that cannot be loaded goes offline."""
        try:
            await self._load()
        except Exception as error:
            # With half of its log a coordinator would decide by records that are long outdated.
            if not self.is_gone:
                self.go_offline(error)

    async def _load(self) -> None:
        invariant(not self.is_loaded, f"{self._log.partition.name} is loaded twice")
        count = 0
        begun_ms = self._clock.monotonic_ms()
        await self._election_settled()
        async for entries in self._log.read():
            for entry in entries:
                self._replay(entry)
            count += len(entries)
        if self.is_gone:
            return
        invariant(self._log.partition.is_settled, f"{self._log.partition.name} is loaded before its election is over")
        self.is_loaded = True
        duration_ms = self._clock.monotonic_ms() - begun_ms
        self._counters.loaded(self.machine, self._log.partition.name, count, duration_ms)
        self.run(lambda: self.machine.on_loaded(self._clock.now_ms()))

    async def _election_settled(self) -> None:
        """Wait until the high watermark has passed what was in the log at the election.

        Records above it may still be truncated, so no answer may rest on them.
        """
        partition = self._log.partition
        while not self.is_gone and (reached := partition.high_watermark_reached(partition.role.epoch_start_offset)):
            await reached

    def discard(self) -> None:
        """Unload for good: if this broker leads again, it gets a new shard, even in the same leader epoch."""
        self._is_discarded = True
        self.unload()

    def unload(self) -> None:
        """Answer the requests that wait: another broker coordinates from now on."""
        if not self.is_loaded:
            return
        self.is_loaded = False
        try:
            self._answer(self.machine.on_unloaded().replies)
        except InvariantError as error:
            # A role changes here, which must go on for the other partitions.
            self.go_offline(error)

    def go_offline(self, error: BaseException) -> None:
        """Take no more requests, because the machine can no longer be trusted to know its log."""
        if self.is_offline:
            return
        self.is_offline = True
        name = self._log.partition.name
        log.critical("%s: its coordinator goes offline until another election", name, exc_info=error)
        self.unload()

    # --- requests and timers

    def ask(self, decide: Callable[[M, int, Token], Decision[R]], guard: TransactionGuard | None = None) -> Answer:
        """Let the machine decide; the reply is sent when the decision may be acknowledged.

        `guard` speaks for the transaction of a decision that has a producer.
        """
        self.check_loaded()
        answer: Answer = asyncio.get_running_loop().create_future()
        self.run(lambda: decide(self.machine, self._clock.now_ms(), answer), guard=guard)
        if self.is_offline and not answer.done():
            answer.set_exception(self._offline_error())
        return answer

    def check_loaded(self) -> None:
        if self.is_offline:
            raise self._offline_error()
        if not self.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if not self._log.partition.is_sure_to_lead:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def _offline_error(self) -> ApiError:
        return ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {self._log.partition.name} is offline"
        )

    async def acknowledged(self) -> None:
        """Wait until everything that the machine knows now may be acknowledged; raise ApiError if it never may."""
        known: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._when_acknowledged(lambda code: None if known.done() else known.set_result(code))
        if (code := await known) is not ErrorCode.NONE:
            raise ApiError(answer_to_append_error(code))

    def on_timer(self, key: tuple[str, ...]) -> None:
        """Let the machine decide about a timer that is due."""
        self.run(lambda: self.machine.on_timer(self._clock.now_ms(), key), timer_key=key)

    # --- decisions

    def run(
        self,
        decide: Callable[[], Decision[R]],
        *,
        timer_key: tuple[str, ...] | None = None,
        guard: TransactionGuard | None = None,
    ) -> None:
        """Let the machine decide, and carry the decision out; the shard goes offline if an invariant fails."""
        try:
            decision = decide()
        except InvariantError as error:
            self.go_offline(error)
            return
        try:
            self._carry_out(decision, timer_key, guard)
        except InvariantError as error:
            self.go_offline(error)
            _refuse(decision.replies, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except Exception:
            # The machine may have forgotten the requests that it has decided to answer.
            _refuse(decision.replies, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    def _carry_out(
        self, decision: Decision[R], timer_key: tuple[str, ...] | None, guard: TransactionGuard | None
    ) -> None:
        """Carry out a decision, in the order that `machines.decision` requires."""
        for timer in decision.timers:
            self._set_timer(self, timer)
        if decision.records:
            try:
                written = self._log.append(
                    decision.records,
                    self._clock.now_ms(),
                    is_atomic=decision.is_atomic,
                    producer=decision.producer,
                    guard=guard,
                )
            except ApiError as error:
                self._fail(decision, error)
                return
            records = decision.records[: written.record_count]
            self._counters.wrote(self.machine, records, timer_key)
            producer_id = NO_PRODUCER_ID if decision.producer is None else decision.producer.producer_id
            self.replay_written(
                LogEntry(record, place, producer_id) for place, record in enumerate(records, written.first_offset)
            )
        self.carried_out(decision)
        if decision.replies:
            self._when_acknowledged(lambda code: self._answer_with(code, decision.replies))

    def replay_written(self, entries: "Iterable[LogEntry[R] | TransactionEnd]") -> None:
        """Let the machine replay what was just appended. This must not fail, because the append cannot be undone."""
        try:
            for entry in entries:
                self._replay(entry)
        except Exception as error:
            raise InvariantError(f"{self._log.partition.name}: a record was written that cannot be replayed") from error

    def carried_out(self, decision: Decision[R]) -> None:
        """Do what else follows from a decision, after its records were written and replayed."""

    def _replay(self, entry: LogEntry[R] | TransactionEnd) -> None:
        """Let the machine replay one entry of the log, live or while it is loaded."""
        if isinstance(entry, LogEntry):
            self.machine.replay(entry.record)

    def _fail(self, decision: Decision[R], error: ApiError) -> None:
        code = answer_to_append_error(error.code)
        log.warning("%s: a decision could not be written: %s", self._log.partition.name, error)
        if decision.failed is not None:
            self._carry_out(decision.failed(code), None, None)
        else:
            _refuse(decision.replies, code)

    # --- answers

    def _when_acknowledged(self, tell: Callable[[ErrorCode], None]) -> None:
        partition = self._log.partition
        when_acknowledged(partition, partition.log.log_end_offset, self._acknowledgement_timeout_ms, tell)

    def _answer_with(self, code: ErrorCode, replies: list[Reply]) -> None:
        if code is ErrorCode.NONE:
            self._answer(replies)
        else:
            _refuse(replies, answer_to_append_error(code))

    def _answer(self, replies: list[Reply]) -> None:
        for reply in replies:
            answer = reply.token
            # The client may have closed its connection by now.
            if isinstance(answer, asyncio.Future) and not answer.done():
                answer.set_result(reply.response)


def _refuse(replies: list[Reply], code: ErrorCode) -> None:
    for reply in replies:
        answer = reply.token
        if isinstance(answer, asyncio.Future) and not answer.done():
            answer.set_exception(ApiError(code))
