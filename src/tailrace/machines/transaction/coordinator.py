"""The coordinator of the transactional ids whose records are in one partition of `__transaction_state`.

It gets requests, timers, records and results of markers, and returns decisions. A decision takes effect as soon as its
records are appended, and later decisions are based on it. But no reply and no marker is sent before the records are
replicated. So, unlike Kafka, it needs no state between two states in which it has to reject requests.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tailrace.base.invariant import invariant
from tailrace.machines.decision import Timer, Token
from tailrace.machines.transaction import add, answer, end, init
from tailrace.machines.transaction.decision import EndMarkers, TransactionDecision, TransactionEvent
from tailrace.machines.transaction.expiry import is_expired, is_timed_out
from tailrace.machines.transaction.init import TakeProducerId
from tailrace.machines.transaction.record import TransactionRecord
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import ONGOING, PREPARED
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_1,
    CLIENT_VERSION_2,
    Identity,
    TopicPartition,
    Transaction,
)
from tailrace.machines.transaction.view import describe_transaction, list_transactions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest
from tailrace.protocol.messages.transaction import EndTxnRequest
from tailrace.protocol.messages.transaction_admin import (
    DescribeTransactionsResponseTransaction,
    ListTransactionsRequest,
    ListTransactionsResponseTransaction,
)

EXPIRY = ("transactional-id-expiry",)
TIMEOUTS = ("transaction-timeouts",)
TIMEOUT = "transaction-timeout"
COMPLETION = "transaction-completion"

COMPLETION_RETRY_WAIT_MS = 1_000
"""The delay before the completion of a transaction is written again after a failure."""


@dataclass(slots=True)
class _Ending:
    """A transaction that is decided and not complete."""

    serial: int  # distinguishes results of this end from those of earlier ones
    waiting: set[TopicPartition]  # partitions without a marker


class TransactionCoordinator:
    """All transactional ids of one partition of `__transaction_state`."""

    def __init__(self, setting: TransactionSetting, coordinator_epoch: int, take_producer_id: TakeProducerId) -> None:
        """`coordinator_epoch` is the leader epoch of the partition; logs reject markers with an older one."""
        self.setting = setting
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self._take_producer_id = take_producer_id
        self._open: set[str] = set()
        self._ending: dict[str, _Ending] = {}
        self._end_count = 0

    # Requests of producers.

    def decide_init(
        self, now_ms: int, token: Token, request: InitProducerIdRequest, version: int
    ) -> TransactionDecision:
        """Decide InitProducerId with a transactional id."""
        try:
            init.check_request(request, self.setting)
            return self._decide_init(now_ms, token, request, version)
        except ApiError as error:
            return _refusal(error.code).reply(token, answer.refuse_init(error.code, version))

    def _decide_init(
        self, now_ms: int, token: Token, request: InitProducerIdRequest, version: int
    ) -> TransactionDecision:
        transaction = self.transactions.get(request.transactional_id or "")
        if transaction is None:
            after = init.create(now_ms, request, self._take_producer_id)
            return self._write(after).reply(token, answer.accept_init(after.identity))
        init.check_producer(transaction, init.expected_identity(request))
        if transaction.state is not ONGOING:
            after = init.renew(now_ms, transaction, request, self._take_producer_id)
            return self._write(after).reply(token, answer.accept_init(after.identity))
        if request.keep_prepared_txn:
            after = init.keep(now_ms, transaction, request, self._take_producer_id)
            ongoing = Identity(after.producer_id, after.producer_epoch)
            return self._write(after).reply(token, answer.accept_init(after.identity, ongoing))
        refusal = answer.refuse_init(ErrorCode.CONCURRENT_TRANSACTIONS, version)
        return self._fence(now_ms, transaction, TransactionEvent.REPLACED).reply(token, refusal)

    def decide_add_partitions(
        self,
        now_ms: int,
        token: Token,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        client_version: int,
    ) -> TransactionDecision:
        """Add existing partitions to a transaction; the reply is an AddPartitionsToTxnResponseTransaction.

        `client_version` is CLIENT_VERSION_1 for requests of a client (AddPartitionsToTxn up to version 3,
        AddOffsetsToTxn), and CLIENT_VERSION_2 for requests of a broker on its behalf.
        """
        partitions = list(partitions)
        code = ErrorCode.NONE
        try:
            if not transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            identity = Identity(producer_id, producer_epoch)
            transaction = add.find_producer(self.transactions.get(transactional_id), identity)
            after = add.add_partitions(now_ms, transaction, partitions, client_version)
        except ApiError as error:
            code = error.code
            decision = _refusal(code)
        else:
            event = None if transaction.state is ONGOING else TransactionEvent.BEGUN
            decision = TransactionDecision() if after is None else self._write(after, event)
        return decision.reply(token, answer.answer_add(transactional_id, dict.fromkeys(partitions, code)))

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return whether each partition is in the transaction. The result is valid once the log is replicated."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        identity = Identity(producer_id, producer_epoch)
        return add.verify_partitions(self.transactions.get(transactional_id), identity, partitions)

    def decide_end(self, now_ms: int, token: Token, request: EndTxnRequest, version: int) -> TransactionDecision:
        """Decide EndTxn. The reply does not wait for the markers."""
        try:
            if not request.transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            transaction = self.transactions.get(request.transactional_id)
            after = end.decide_end(
                now_ms,
                transaction,
                Identity(request.producer_id, request.producer_epoch),
                is_commit=request.committed,
                client_version=CLIENT_VERSION_1 if version < answer.END_RAISES_EPOCH else CLIENT_VERSION_2,
                take_producer_id=self._take_producer_id,
            )
        except ApiError as error:
            return _refusal(error.code).reply(token, answer.refuse_end(error.code, version))
        before = self.transactions[request.transactional_id]
        if after is None:
            return TransactionDecision().reply(token, answer.accept_end(before.identity, version))
        event = TransactionEvent.COMMITTED if request.committed else TransactionEvent.ABORTED
        # The abort of an empty transaction takes the same steps, but ends no transaction.
        decision = self._end(now_ms, after, event if before.state is ONGOING else None)
        return decision.reply(token, answer.accept_end(after.identity, version))

    def on_markers_written(
        self, now_ms: int, markers: EndMarkers, partitions: Iterable[TopicPartition]
    ) -> TransactionDecision:
        """Record that partitions have their marker, or no longer exist. The last one completes the transaction."""
        ending = self._ending.get(markers.transactional_id)
        if ending is None or ending.serial != markers.serial:
            return TransactionDecision()  # a result of an earlier end
        ending.waiting.difference_update(partitions)
        return self._complete_if_written(now_ms, markers.transactional_id)

    def end_markers(self, transactional_id: str) -> EndMarkers:
        """Return the markers of a decided transaction, whose record has been replayed."""
        prepared, ending = self.transactions[transactional_id], self._ending[transactional_id]
        return EndMarkers(
            transactional_id=transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=prepared.client_version,
            is_commit=prepared.is_commit,
            partitions=prepared.partitions,
            serial=ending.serial,
        )

    def _write(self, after: Transaction, event: TransactionEvent | None = None) -> TransactionDecision:
        return TransactionDecision(records=[TransactionRecord(after.transactional_id, after)], event=event)

    def _fence(self, now_ms: int, transaction: Transaction, event: TransactionEvent) -> TransactionDecision:
        """Abort a transaction on behalf of its producer, which is fenced."""
        return self._end(now_ms, end.fence(now_ms, transaction, self._take_producer_id), event)

    def _end(self, now_ms: int, prepared: Transaction, event: TransactionEvent | None) -> TransactionDecision:
        """Write the decision about a transaction, and send its markers."""
        decision = self._write(prepared, event)
        if prepared.partitions:
            decision.ending.append(prepared.transactional_id)
        else:
            after = prepared.completed(now_ms)
            decision.records.append(TransactionRecord(after.transactional_id, after))
        return decision

    def _complete_if_written(self, now_ms: int, transactional_id: str) -> TransactionDecision:
        ending = self._ending.get(transactional_id)
        if ending is None or ending.waiting:
            return TransactionDecision()
        decision = self._write(self.transactions[transactional_id].completed(now_ms))
        retry = Timer((COMPLETION, transactional_id), now_ms + COMPLETION_RETRY_WAIT_MS)
        decision.failed = lambda _: TransactionDecision(timers=[retry])
        return decision

    # Administration.

    def list(self, now_ms: int, request: ListTransactionsRequest) -> list[ListTransactionsResponseTransaction]:
        """Return the transactions that match the filters; raise ApiError if the pattern is invalid."""
        return list_transactions(now_ms, self.transactions.values(), request)

    def describe(self, transactional_id: str) -> DescribeTransactionsResponseTransaction:
        """Describe a transactional id. For a decided transaction, list the partitions without a marker."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
            return DescribeTransactionsResponseTransaction(transactional_id=transactional_id, error_code=code)
        ending = self._ending.get(transactional_id)
        return describe_transaction(transaction, transaction.partitions if ending is None else ending.waiting)

    @property
    def open_count(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    @property
    def oldest_start_ms(self) -> int | None:
        """The start time of the oldest open transaction."""
        return min((self.transactions[name].start_ms for name in self._open), default=None)

    def late_end_count(self, before_ms: int) -> int:
        """Return the number of transactions that were decided before that time and are not complete."""
        return sum(self.transactions[name].update_ms < before_ms for name in self._ending)

    @property
    def unwritten_count(self) -> int:
        """The number of transactions that have all markers, and whose completion is not written yet."""
        return sum(not ending.waiting for ending in self._ending.values())

    # Timers and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> TransactionDecision:
        """Handle an expired timer."""
        if key == EXPIRY:
            return self._expire(now_ms)
        if key == TIMEOUTS:
            return self._find_timed_out(now_ms)
        kind, transactional_id = key
        if kind == TIMEOUT:
            return self._time_out(now_ms, transactional_id)
        invariant(kind == COMPLETION, f"the timer {key} is not one of this coordinator")
        return self._complete_if_written(now_ms, transactional_id)

    def _expire(self, now_ms: int) -> TransactionDecision:
        expired = [
            TransactionRecord(transactional_id, None)
            for transactional_id, transaction in self.transactions.items()
            if is_expired(now_ms, transaction, self.setting)
        ]
        return TransactionDecision(records=expired, timers=[self._next_expiry(now_ms)], is_atomic=False)

    def _find_timed_out(self, now_ms: int) -> TransactionDecision:
        """Set a timer for each timed-out transaction, so that a failed abort does not stop the others."""
        found = [name for name in self._open if is_timed_out(now_ms, self.transactions[name])]
        timers = [Timer((TIMEOUT, transactional_id), now_ms) for transactional_id in sorted(found)]
        return TransactionDecision(timers=[*timers, self._next_timeouts(now_ms)])

    def _time_out(self, now_ms: int, transactional_id: str) -> TransactionDecision:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not is_timed_out(now_ms, transaction):
            return TransactionDecision()  # it has just ended
        try:
            return self._fence(now_ms, transaction, TransactionEvent.TIMED_OUT)
        except ApiError:
            return TransactionDecision()  # no producer id is available; the next check tries again

    def on_loaded(self, now_ms: int) -> TransactionDecision:
        """Resume decided transactions after the log has been replayed to its end."""
        decision = TransactionDecision(timers=[self._next_expiry(now_ms), self._next_timeouts(now_ms)])
        for transactional_id, ending in self._ending.items():
            if ending.waiting:
                decision.ending.append(transactional_id)
            else:
                decision.timers.append(Timer((COMPLETION, transactional_id), now_ms))
        return decision

    def on_unloaded(self) -> TransactionDecision:
        """Return no further actions, because another broker is now the coordinator."""
        return TransactionDecision()

    def _next_expiry(self, now_ms: int) -> Timer:
        return Timer(EXPIRY, now_ms + self.setting.expiry_interval_ms)

    def _next_timeouts(self, now_ms: int) -> Timer:
        return Timer(TIMEOUTS, now_ms + self.setting.timeout_interval_ms)

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record, live or from the log."""
        transactional_id, transaction = record.transactional_id, record.transaction
        self._open.discard(transactional_id)
        self._ending.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self._open.add(transactional_id)
        elif transaction.state in PREPARED:
            self._end_count += 1
            self._ending[transactional_id] = _Ending(self._end_count, set(transaction.partitions))


def _refusal(code: ErrorCode) -> TransactionDecision:
    return TransactionDecision(event=TransactionEvent.FENCED if code is ErrorCode.PRODUCER_FENCED else None)
