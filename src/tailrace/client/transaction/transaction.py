"""The transactions of one producer, on its event loop.

They connect four parts: the state decides which calls are allowed (`state`), requests go to the coordinator
(`coordinator`), the outbox accepts records only while a transaction is open, and the sender gets the identity
of batches here.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, RequestTimeout, TransactionFailed, TransactionStateError
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.identity import PASSING, Start
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import Drained
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.coordinator import PRODUCE_VERSION_MAX_V1, TransactionCoordinator
from tailrace.client.transaction.reason import Reasons
from tailrace.client.transaction.state import (
    SENDING,
    Phase,
    PreparedTransaction,
    Step,
    TransactionState,
    Verdict,
    judge,
    judge_batch,
)
from tailrace.protocol.errors import ApiError, ErrorCode

T = TypeVar("T")

_GIVEN_UP = frozenset({Phase.FAILED, Phase.ABORTING, Phase.BROKEN})


class Transactions:
    """The transactions of one transactional id. Unless noted, calls belong to the producer's event loop."""

    def __init__(
        self,
        cluster: Cluster,
        outbox: Outbox,
        transactional_id: str,
        *,
        timeout_ms: int,
        max_block_ms: int,
        is_two_phase: bool,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.state = TransactionState()
        self._name = transactional_id
        self._reasons = Reasons(transactional_id, None if is_two_phase else timeout_ms)
        self._cluster = cluster
        self._outbox = outbox
        self._timeout_ms = timeout_ms
        self._max_block_ms = max_block_ms
        self._is_two_phase = is_two_phase
        self._coordinator = TransactionCoordinator(cluster, transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._prepared: PreparedTransaction | None = None
        self._began_at_s = 0.0
        self._turn = asyncio.Lock()
        self._beginning = threading.Lock()
        self._progress = asyncio.Event()
        self._adding: asyncio.Task[None] | None = None
        self._start: Start | None = None
        self._wake: Callable[[], None] = lambda: None
        outbox.on_progress(self._progress.set)
        self._guard()

    # --- what users call

    async def init(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id; returns the prepared transaction that was kept, if any."""
        async with self._turn:
            self.state.take(Step.INIT)
            try:
                reply = await self._coordinator.retry(
                    lambda: self._coordinator.init(
                        self._timeout_ms, enable_2pc=self._is_two_phase, keep_prepared=keep_prepared
                    ),
                    timeout_ms=self._max_block_ms,
                )
                self.state.is_v2 = await self._coordinator.retry(self._coordinator.is_v2, timeout_ms=self._max_block_ms)
            except BaseException:
                self.state.take(Step.FAIL)
                raise
            self.state.forget(Identity(reply.producer_id, reply.producer_epoch))
            if keep_prepared and reply.ongoing_txn_producer_id >= 0:
                self.state.take(Step.KEEP)
                self.state.is_started = True
                self._prepared = PreparedTransaction(
                    self._name, reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch
                )
            else:
                self.state.take(Step.DONE)
                self._prepared = None
            self._guard()
            return self._prepared

    async def begin(self) -> None:
        """Begin a transaction; the first one takes the transactional id."""
        if self.state.phase is Phase.NEW:
            await self.init()
        self.begin_at_once()

    def begin_at_once(self) -> None:
        """Begin a transaction after the id is taken; from any thread, because it changes only memory."""
        with self._beginning:
            self.state.take(Step.BEGIN)
        self._began_at_s = time.monotonic()
        self._guard()

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Add the offsets of a group to the transaction, which fails if that is not certain."""
        async with self._turn:
            self.state.take(Step.SEND_OFFSETS)
            if not offsets:
                return
            state, identity = self.state, self._identity()
            groups = self._groups.setdefault(group.group_id, Coordinator(self._cluster, group.group_id))
            state.is_started = True
            try:
                if not state.is_v2:
                    await self._ask(lambda: self._coordinator.add_offsets(identity, group.group_id))
                    state.is_confirmed = True
                await self._ask(
                    lambda: self._coordinator.commit_offsets(groups, identity, group, offsets, is_v2=state.is_v2)
                )
            except BaseException as error:
                if state.phase is Phase.OPEN:
                    self._fail(
                        _because(TransactionFailed(f"offsets may not be part of the transaction: {error}"), error)
                    )
                raise

    async def prepare(self) -> PreparedTransaction | None:
        """Write all records and prepare the transaction; None if it is empty."""
        if not self._is_two_phase:
            text = "a transaction can be prepared only with transaction_two_phase_commit_enable"
            raise TransactionStateError(text)
        async with self._turn:
            self.state.take(Step.PREPARE)
            self._guard()
            await self._flush(Step.PREPARE)
            self.state.take(Step.DONE)
            if not self.state.is_started:
                self.state.take(Step.ABORT)
                self.state.end(None)
                self._guard()
                return None
            self._prepared = PreparedTransaction(self._name, *self._identity())
            self._guard()
            return self._prepared

    async def complete(self, prepared: PreparedTransaction) -> bool:
        """Commit the producer's prepared transaction if it is this one, else abort it; returns whether it committed."""
        if self.state.phase is not Phase.PREPARED:
            raise TransactionStateError("there is no prepared transaction to complete")
        if prepared == self._prepared:
            await self.commit()
            return True
        await self.abort()
        return False

    async def commit(self) -> None:
        """Write all records and commit the transaction, or raise the error that prevents it."""
        async with self._turn:
            self.state.take(Step.COMMIT)
            self._guard()
            await self._flush(Step.COMMIT)
            await self._end(commit=True)

    async def abort(self) -> None:
        """Stop sending, and abort the transaction."""
        async with self._turn:
            self.state.take(Step.ABORT)
            self._guard()
            self._drop(_aborted())
            if self._adding is not None:
                await asyncio.wait({self._adding})
            await self._flush(Step.ABORT)
            await self._end(commit=False)

    @property
    def is_initialized(self) -> bool:
        """Whether the transactional id is taken."""
        return self.state.identity is not None

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that only this producer would end."""
        return self.state.phase in (Phase.OPEN, Phase.PREPARING, Phase.FAILED, Phase.ABORTING)

    # --- what a sender asks

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch of the transaction."""
        return self.state.identity

    @property
    def produce_version_max(self) -> int | None:
        """The highest version of Produce that does not add partitions, if the producer adds them."""
        return None if self.state.is_v2 else PRODUCE_VERSION_MAX_V1

    def bind(self, start: Start, wake: Callable[[], None]) -> None:
        """Take the functions that start a background task and wake the sender."""
        self._start, self._wake = start, wake

    def admits(self, target: TopicPartition) -> bool:
        """Return whether a partition is in the transaction, or the leader adds it."""
        return self.state.admits(target)

    def mend(self, drained: Drained) -> None:
        """Add partitions that wait for it, and restart sequence numbers under a new identity."""
        if self.state.phase in _GIVEN_UP:
            self._drop(self.state.error or _aborted())  # batches that wait for a retry
        identity = self.state.identity
        for queue in drained.restarting:
            if identity is not None and queue.sequence.identity != identity:
                self._outbox.restart(queue, identity)
                self._wake()
            elif self.state.phase in SENDING:
                self._fail(TransactionFailed(f"it is unknown whether all records for {queue.target} were written"))
        is_adding = self._adding is not None or self.state.phase not in SENDING
        if self.state.wanted and not is_adding and self._start is not None:
            self._adding = self._start(self._add_partitions())

    def may_pass(self, batch: Batch, error: Exception) -> bool:
        """Return whether a batch is sent again: not after the transaction has failed."""
        if self.state.phase not in SENDING:
            return False
        if not isinstance(error, ApiError):
            return isinstance(error, PASSING)
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            sequence = self._outbox.queue_of(batch).sequence
            return sequence.unsettled[0] is not batch and not sequence.is_in_doubt  # an earlier batch is sent again
        return error.code.retriable

    def on_given_up(self, batch: Batch, error: Exception) -> None:
        """Fail the transaction, because a record is not written."""
        if self.state.phase not in SENDING:
            self.state.needs_epoch |= batch.has_sequence
            return
        verdict = judge_batch(error.code) if isinstance(error, ApiError) else Verdict.ABORT
        self._apply(verdict, error, f"{_count(batch.record_count)} for {batch.target} not written")

    # --- inside

    def _identity(self) -> Identity:
        identity = self.state.identity
        if identity is None:
            raise self.state.refusal(Step.SEND)
        return identity

    def _guard(self) -> None:
        """Let the outbox accept records only while a transaction is open."""
        self._outbox.refuse(None if self.state.phase is Phase.OPEN else self.state.refusal(Step.SEND))

    async def _flush(self, step: Step) -> None:
        """Wait until the outbox is empty; raises the transaction's error."""
        phase = self.state.phase
        mark = self._outbox.begin_flush()
        try:
            self._wake()
            while True:
                self._progress.clear()
                if self._outbox.is_complete(mark):
                    break
                await self._progress.wait()
        finally:
            self._outbox.end_flush()
        if self._outbox.closed_by is not None:  # the outbox is empty because its batches were given up
            raise self._outbox.closed_by
        if self.state.phase is not phase:
            raise self.state.refusal(step)

    async def _end(self, *, commit: bool) -> None:
        state, identity = self.state, self._identity()
        following: Identity | None = None
        if state.is_started:
            following = await self._ask(lambda: self._end_once(identity, commit=commit), is_abort=not commit)
            state.is_started = False
        if following is None and state.needs_epoch and not state.is_v2:
            reply = await self._ask(
                lambda: self._coordinator.init(self._timeout_ms, resume=identity, enable_2pc=self._is_two_phase),
                is_abort=True,
            )
            following = Identity(reply.producer_id, reply.producer_epoch)
        state.end(following)
        self._prepared = None
        self._guard()

    async def _end_once(self, identity: Identity, *, commit: bool) -> Identity | None:
        try:
            return await self._coordinator.end(identity, commit=commit, is_v2=self.state.is_v2)
        except (BrokerUnavailable, RequestTimeout, asyncio.CancelledError):
            self.state.may_be_committed |= commit
            raise
        except ApiError as error:
            self.state.may_be_committed |= commit and error.code.retriable
            # The coordinator has confirmed no partition, so the transaction is empty and needs no abort.
            is_nothing = error.code is ErrorCode.INVALID_TXN_STATE and not self.state.is_confirmed
            if commit or self.state.is_v2 or not is_nothing:
                raise
            return None

    async def _add_partitions(self) -> None:
        """Add partitions that wait for it, until there are none or the transaction is ending."""
        state, failure_count = self.state, 0
        try:
            while state.wanted and state.phase in SENDING:
                targets = list(state.wanted)
                state.is_started = True
                try:
                    await self._coordinator.add_partitions(self._identity(), targets)
                except (*PASSING, ApiError) as error:
                    verdict = judge(error.code) if isinstance(error, ApiError) else Verdict.AGAIN
                    if verdict is not Verdict.AGAIN:
                        self._apply(verdict, error, "partitions could not be added to the transaction")
                        return
                    failure_count += 1
                    await asyncio.sleep(self._coordinator.wait_s(error, failure_count))
                else:
                    failure_count = 0
                    state.confirm(targets)
                    self._wake()
        except Exception as error:  # a bug must fail the transaction; nothing waits for this task
            self._apply(Verdict.ABORT, error, "partitions could not be added to the transaction")
        finally:
            self._adding = None
            self._wake()

    async def _ask(self, action: Callable[[], Awaitable[T]], *, is_abort: bool = False) -> T:
        try:
            return await self._coordinator.retry(action, timeout_ms=self._max_block_ms)
        except ApiError as error:
            raise self._apply(judge(error.code, is_abort=is_abort), error, error.message or "") from error

    # --- what goes wrong

    def _apply(self, verdict: Verdict, error: Exception, what: str) -> Exception:
        """Apply an error to the state; returns the error to raise."""
        reason = self._reasons.find(
            *(verdict, error, what, (time.monotonic() - self._began_at_s) * 1000),
            may_be_committed=self.state.may_be_committed,
        )
        if verdict in (Verdict.FENCED, Verdict.BREAK):
            self.state.break_down(reason)
            self._guard()
            self._drop(reason)
        else:
            self._fail(reason)
        return reason

    def _fail(self, error: Exception) -> None:
        self.state.fail(error)
        self._guard()
        self._drop(error)

    def _drop(self, error: Exception) -> None:
        """Drop batches that were not sent, and fail their futures."""
        dropped = self._outbox.drop_unsent()
        for batch in dropped:
            self.state.needs_epoch |= batch.has_sequence
            batch.fail(error)
        if dropped:
            self._outbox.tell_progress()


def _count(record_count: int) -> str:
    return "a record" if record_count == 1 else f"{record_count} records"


def _aborted() -> TransactionFailed:
    return TransactionFailed("the transaction was aborted before the record was written")


def _because(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error
