"""A transaction coordinator on virtual time, for scenarios that read as request, reply, records.

Records pass through their bytes, as they would through the log. Nothing is answered, and no marker sent, before what
was written is committed, which happens at once here.
"""

from collections.abc import Iterable
from dataclasses import replace

from tailrace.machines.transaction.coordinator import TransactionCoordinator
from tailrace.machines.transaction.decision import EndMarkers, TransactionDecision
from tailrace.machines.transaction.record import TRANSACTION_RECORDS, TransactionRecord
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import TransactionState
from tailrace.machines.transaction.transaction import CLIENT_VERSION_2, Identity, Transaction
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.transaction import (
    AddPartitionsToTxnResponseTransaction,
    EndTxnRequest,
    EndTxnResponse,
)

ID = "copy-orders"
START_MS = 1_000_000
FIRST_PRODUCER_ID = 4000
TIMEOUT_MS = 60_000

ORDERS = ("orders", 0)
TOTALS = ("totals", 3)
OFFSETS = ("__consumer_offsets", 7)

BEGUN = Transaction(
    transactional_id=ID,
    producer_id=FIRST_PRODUCER_ID,
    previous_producer_id=FIRST_PRODUCER_ID,
    producer_epoch=0,
    timeout_ms=TIMEOUT_MS,
    state=TransactionState.EMPTY,
    update_ms=START_MS,
)


class TransactionScript:
    """Drives one coordinator and keeps what it says."""

    def __init__(self, setting: TransactionSetting | None = None) -> None:
        self.now_ms = START_MS
        self.transactional_id = ID
        self.setting = setting or TransactionSetting()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.append_error: ErrorCode | None = None
        self.has_producer_ids = True
        self.next_producer_id = FIRST_PRODUCER_ID
        self.coordinator_epoch = 0
        self._seen = 0
        self.restart()

    def _take_producer_id(self) -> int:
        if not self.has_producer_ids:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def restart(self) -> None:
        """Lose everything but the log."""
        self.coordinator_epoch += 1
        self.machine = TransactionCoordinator(self.setting, self.coordinator_epoch, self._take_producer_id)
        self.timers: dict[tuple[str, ...], int] = {}
        self.markers: list[EndMarkers] = []
        for key, value in self.log:
            self.machine.replay(TRANSACTION_RECORDS.decode(key, value))
        self.carry_out(self.machine.on_loaded(self.now_ms))

    def carry_out(self, decision: TransactionDecision) -> TransactionDecision:
        """What the shell does with a decision."""
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self.timers[timer.key] = timer.at_ms
        if decision.records and self.append_error is not None:
            if decision.failed is not None:
                return self.carry_out(decision.failed(self.append_error))
            raise ApiError(self.append_error)
        for record in decision.records:
            key, value = TRANSACTION_RECORDS.encode(record)
            self.log.append((key, value))
            self.machine.replay(record)
        self.markers += [self.machine.end_markers(transactional_id) for transactional_id in decision.ending]
        return decision

    def place(self, **values: object) -> Transaction:
        """Have a transactional id as if it were in the log already."""
        transaction = replace(BEGUN, **values)  # type: ignore[arg-type]
        record = TransactionRecord(transaction.transactional_id, transaction)
        self.log.append(TRANSACTION_RECORDS.encode(record))
        self.machine.replay(TRANSACTION_RECORDS.decode(*self.log[-1]))
        self.take_records()
        self.next_producer_id = max(self.next_producer_id, transaction.producer_id + 1)
        return transaction

    def pass_time(self, duration_ms: int) -> None:
        """Let time go by, with every timer at its moment."""
        end_ms = self.now_ms + duration_ms
        while self.timers and min(self.timers.values()) <= end_ms:
            key = min(self.timers, key=lambda key: (self.timers[key], key))
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.carry_out(self.machine.on_timer(self.now_ms, key))
        self.now_ms = end_ms

    def init(
        self,
        expected: Identity | None = None,
        *,
        transactional_id: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
        version: int = 6,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self._named(transactional_id),
            transaction_timeout_ms=timeout_ms,
            enable2_pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )
        if expected is not None:
            request.producer_id, request.producer_epoch = expected
        decision = self.carry_out(self.machine.decide_init(self.now_ms, "init", request, version))
        [reply] = decision.replies
        assert isinstance(reply.response, InitProducerIdResponse)
        return reply.response

    def begin(self, **options: object) -> Identity:
        """A producer with its identity."""
        response = self.init(**options)  # type: ignore[arg-type]
        assert response.error_code == ErrorCode.NONE
        return Identity(response.producer_id, response.producer_epoch)

    def add(
        self,
        identity: Identity,
        *partitions: tuple[str, int],
        client_version: int = CLIENT_VERSION_2,
        transactional_id: str | None = None,
    ) -> ErrorCode:
        decision = self.machine.decide_add_partitions(
            self.now_ms, "add", self._named(transactional_id), *identity, partitions, client_version=client_version
        )
        [reply] = self.carry_out(decision).replies
        assert isinstance(reply.response, AddPartitionsToTxnResponseTransaction)
        [code] = {
            result.partition_error_code
            for topic in reply.response.topic_results
            for result in topic.results_by_partition
        }
        return ErrorCode(code)

    def opened(self, identity: Identity, *partitions: tuple[str, int]) -> Identity:
        """The same producer with a transaction in these partitions."""
        assert self.add(identity, *partitions) is ErrorCode.NONE
        return identity

    def verify(self, identity: Identity, *partitions: tuple[str, int]) -> list[ErrorCode]:
        return list(self.machine.verify(self.transactional_id, *identity, partitions).values())

    def end(
        self, identity: Identity, *, commit: bool, version: int = 5, transactional_id: str | None = None
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self._named(transactional_id),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        decision = self.carry_out(self.machine.decide_end(self.now_ms, "end", request, version))
        [reply] = decision.replies
        assert isinstance(reply.response, EndTxnResponse)
        return reply.response

    def finish(self, identity: Identity, *, commit: bool, version: int = 5) -> Identity:
        """End a transaction and write all of its markers; the identity to go on with."""
        response = self.end(identity, commit=commit, version=version)
        assert response.error_code == ErrorCode.NONE
        self.write_markers()
        return identity if version < 5 else Identity(response.producer_id, response.producer_epoch)

    def write_markers(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """What all of the markers that were to be sent say was written."""
        for markers in self.take_markers():
            self.confirm(markers, markers.partitions if partitions is None else partitions)

    def confirm(self, markers: EndMarkers, partitions: Iterable[tuple[str, int]]) -> None:
        self.carry_out(self.machine.on_markers_written(self.now_ms, markers, partitions))

    def take_markers(self) -> list[EndMarkers]:
        markers, self.markers = self.markers, []
        return markers

    def take_records(self) -> list[TransactionRecord]:
        """What was written since the last time."""
        written = [TRANSACTION_RECORDS.decode(key, value) for key, value in self.log[self._seen :]]
        self._seen = len(self.log)
        return written

    def take_transactions(self) -> list[Transaction | None]:
        return [record.transaction for record in self.take_records()]

    @property
    def transaction(self) -> Transaction:
        return self.machine.transactions[self.transactional_id]

    def _named(self, transactional_id: str | None) -> str:
        return self.transactional_id if transactional_id is None else transactional_id
