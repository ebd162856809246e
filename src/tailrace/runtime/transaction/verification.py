"""Questions to the coordinator of a transaction before a partition is written to (KIP-890).

For producers that add partitions themselves, the partition's leader checks that they did. For other producers the
leader adds the partition. If the coordinator is on this broker and need not wait for replicas, it answers at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tailrace.base.clock import Clock
from tailrace.base.sentinel import NO_BROKER
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.transaction.transaction import CLIENT_VERSION_2, TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseTransaction,
)
from tailrace.runtime.coordinator.topic import TRANSACTION_TOPIC, partition_for
from tailrace.runtime.partition import Partition
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_queue import LOST, PeerQueue, ask_peer
from tailrace.runtime.transaction.coordinator import TransactionCoordinators
from tailrace.runtime.transaction.guard import NO_GUARD, TransactionGuard, UnnumberedBatch

log = logging.getLogger("tailrace.runtime")

Codes = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """The question whether partitions are in a transaction, or with `is_adding` the request to add them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    is_adding: bool
    knows_abortable: bool = True  # whether the client knows TRANSACTION_ABORTABLE

    def all(self, code: ErrorCode) -> Codes:
        """Return the same answer for every partition."""
        return dict.fromkeys(self.partitions, code)


Asked = tuple[Question, asyncio.Future[Codes]]
"""A question to another broker, and the future of its answer."""


class TransactionVerification:
    """Asks the coordinators of transactions, on this broker and on others."""

    def __init__(
        self,
        broker_id: int,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        image: ClusterImage,
        coordinators: TransactionCoordinators,
        peer_of: Callable[[int], Peer],
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._clock = clock
        self._image = image
        self._coordinators = coordinators
        self._queue: PeerQueue[Asked] = PeerQueue(peer_of, self._ask_peer, _failed)

    async def stop(self) -> None:
        """Stop asking."""
        await self._queue.stop()

    def is_needed(self, *, is_adding: bool) -> bool:
        """Whether the coordinator has to be asked."""
        return is_adding or self._config().transaction_partition_verification_enable

    async def guard(
        self,
        partition: Partition,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        is_adding: bool,
        knows_abortable: bool,
    ) -> TransactionGuard | None:
        """Return the guard to append unnumbered records of a transaction with; raise ApiError if they are refused."""
        if not self.is_needed(is_adding=is_adding):
            return NO_GUARD
        batch = UnnumberedBatch(producer_id, producer_epoch)
        guard = partition.begin_transaction(batch, is_adding=is_adding, now_ms=self._clock.now_ms())
        if guard is not None:
            key = partition.topic, partition.index
            codes = await self.ask(
                Question(transactional_id, producer_id, producer_epoch, [key], is_adding, knows_abortable)
            )
            if (code := codes[key]) is not ErrorCode.NONE:
                raise ApiError(code)
        return guard

    async def ask(self, question: Question) -> Codes:
        """Return an answer for each partition, with the error codes that producers expect.

        While the markers of the previous transaction are being written, retry for a while: otherwise the producer
        would have to send its records again.
        """
        config = self._config()
        until_ms = self._clock.monotonic_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            codes = await self._ask(question)
            is_busy = question.is_adding and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if not is_busy or self._clock.monotonic_ms() >= until_ms:
                return {partition: _translate(code, question) for partition, code in codes.items()}
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _ask(self, question: Question) -> Codes:
        leader = self._leader_of(question.transactional_id)
        if leader == NO_BROKER:
            return question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader != self._broker_id:
            answer: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()
            self._queue.add(leader, (question, answer))
            return await answer
        try:
            return await self._ask_here(question)
        except ApiError as error:
            return question.all(error.code)

    def _leader_of(self, transactional_id: str) -> int:
        topic = self._image.topics.get(TRANSACTION_TOPIC)
        state = None if topic is None else topic.leadership.get(partition_for(transactional_id, topic.partition_count))
        return NO_BROKER if state is None else state.leader

    async def _ask_here(self, question: Question) -> Codes:
        if not question.is_adding:
            return await self._coordinators.verify(*question[:4])
        answer = self._coordinators.shard(question.transactional_id).ask(
            lambda machine, now_ms, token: machine.decide_add_partitions(
                now_ms, token, *question[:4], client_version=CLIENT_VERSION_2
            )
        )
        response = answer.result() if answer.done() else await answer
        if not isinstance(response, AddPartitionsToTxnResponseTransaction):
            return question.all(ErrorCode.UNKNOWN_SERVER_ERROR)
        return question.all(ErrorCode.UNKNOWN_SERVER_ERROR) | _read(response)

    async def _ask_peer(self, peer: Peer, asked: list[Asked]) -> None:
        # One request cannot name a transactional id twice.
        while asked:
            now: dict[str, Asked] = {}
            asked = [each for each in asked if now.setdefault(each[0].transactional_id, each) is not each]
            await self._ask_peer_once(peer, now)

    async def _ask_peer_once(self, peer: Peer, asked: dict[str, Asked]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question, _ in asked.values()])
        answers: dict[str, Codes] = {}
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            response = await ask_peer(peer, request, AddPartitionsToTxnResponse)
            answers = {each.transactional_id: _read(each) for each in response.results_by_transaction}
            code = ErrorCode(response.error_code) or code
        except LOST:
            code = ErrorCode.NETWORK_EXCEPTION
        except ApiError as error:
            code = error.code
        for transactional_id, (question, answer) in asked.items():
            if not answer.done():
                answer.set_result(question.all(code) | answers.get(transactional_id, {}))


def _failed(asked: list[Asked], error: Exception) -> None:
    """Answer with an error after a bug, as a handler does for one request."""
    log.error("the coordinator of %d transactions could not be asked", len(asked), exc_info=error)
    for question, answer in asked:
        if not answer.done():
            answer.set_result(question.all(ErrorCode.UNKNOWN_SERVER_ERROR))


def _transaction(question: Question) -> AddPartitionsToTxnRequestTransaction:
    topics: dict[str, list[int]] = {}
    for name, index in question.partitions:
        topics.setdefault(name, []).append(index)
    return AddPartitionsToTxnRequestTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.is_adding,
        topics=[AddPartitionsToTxnRequestTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _read(response: AddPartitionsToTxnResponseTransaction) -> Codes:
    return {
        (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for topic in response.topic_results
        for result in topic.results_by_partition
    }


def _translate(code: ErrorCode, question: Question) -> ErrorCode:
    """Translate a coordinator's error to the one that producers expect from a write."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_unknown = code is ErrorCode.TRANSACTION_ABORTABLE and not question.knows_abortable
    if is_unknown or code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    return code
