"""The admin calls for transactions and producers.

Each coordinator knows only its own transactions, so listing asks every broker and the other calls ask the
coordinator of the transactional id. Only the leader of a partition knows its producers.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, ProducerFenced
from tailrace.client.group.coordinator import Coordinator, CoordinatorKind
from tailrace.client.produce.core import check_partition
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.client.transaction.state import PreparedTransaction, Verdict, judge
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.producer import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
)
from tailrace.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from tailrace.records.batch import NO_TIMESTAMP

R = TypeVar("R", bound=Message)

_TIMEOUT_SETTING = "default_api_timeout_ms"
_DURATION_VERSION = 1
_PATTERN_VERSION = 2
_FENCING_TIMEOUT_MS = 60_000  # never used: no transaction begins under the epoch that fences


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in a listing, with the state of its last or current transaction."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id; the start and the partitions are set only while a transaction is open or ending."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state of a producer in a partition; the start offset is set while it has an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction in one partition that no coordinator knows, so that it never ends."""

    partition: TopicPartition
    producer: ProducerState


class TransactionAdmin:
    """The admin calls for transactions."""

    _cluster: Cluster
    _timeout_ms: int

    # --- two-phase commit

    async def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """Commit or abort a prepared transaction. Repeating the call changes nothing.

        Raises `ProducerFenced` if another producer has taken the transactional id since, and `ApiError`
        INVALID_TXN_STATE if the transaction has ended the other way.
        """
        coordinator = TransactionCoordinator(self._cluster, prepared.transactional_id)
        identity = Identity(prepared.producer_id, prepared.producer_epoch)

        async def end() -> None:
            await coordinator.end(identity, commit=commit, is_v2=await coordinator.is_v2())

        try:
            await coordinator.retry(end, timeout_ms=self._timeout_ms, setting=_TIMEOUT_SETTING)
        except ApiError as error:
            if judge(error.code) is Verdict.FENCED:
                text = f"another producer has taken the transactional id {prepared.transactional_id} since"
                raise ProducerFenced(f"{text} producer {prepared.producer_id} was at epoch {prepared[2]}") from error
            raise

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, Identity | ApiError]:
        """Fence the producers of transactional ids, and abort their open or prepared transactions.

        The outcome is the producer id and the epoch that fences them.
        """
        return {name: await self._fence(name) for name in dict.fromkeys(transactional_ids)}

    async def _fence(self, transactional_id: str) -> Identity | ApiError:
        coordinator = TransactionCoordinator(self._cluster, transactional_id)
        try:
            reply = await coordinator.retry(
                lambda: coordinator.init(_FENCING_TIMEOUT_MS), timeout_ms=self._timeout_ms, setting=_TIMEOUT_SETTING
            )
        except ApiError as error:
            return error
        return Identity(reply.producer_id, reply.producer_epoch)

    # --- looking

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return all transactional ids by name.

        Filters select states ("Ongoing"), producer ids, transactions that have been open for longer than a time, and
        whole names that match a regular expression, which the broker evaluates.
        """
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
        await self._cluster.refresh([])
        found: dict[str, ListedTransaction] = {}
        for node_id in self._cluster.view.nodes:

            async def ask(node_id: int = node_id) -> ListTransactionsResponse:
                connection = await self._cluster.connection(node_id)
                version = connection.version(ListTransactionsRequest)
                if running_ms is not None:
                    _check_filter("duration", version, _DURATION_VERSION)
                    request.duration_filter = running_ms
                if pattern is not None:
                    _check_filter("pattern", version, _PATTERN_VERSION)
                    request.transactional_id_pattern = pattern
                reply = await connection.request(request, ListTransactionsResponse)
                if reply.error_code:
                    raise ApiError(ErrorCode(reply.error_code), f"listing the transactions of broker {node_id}")
                return reply

            for item in (await self._cluster.retry(ask, timeout_ms=self._timeout_ms)).transaction_states:
                found[item.transactional_id] = ListedTransaction(
                    item.transactional_id, item.producer_id, item.transaction_state, node_id
                )
        return [found[name] for name in sorted(found)]

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | ApiError]:
        """Return transactional ids with their transactions."""
        return {name: await self._describe_transaction(name) for name in dict.fromkeys(transactional_ids)}

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerState] | ApiError]:
        """Return the producers that the leaders of partitions know, with their open transactions."""
        found: dict[TopicPartition, list[ProducerState] | ApiError] = {}
        for target in (TopicPartition(*partition) for partition in partitions):
            try:
                found[target] = await self._producers(target)
            except ApiError as error:
                found[target] = error
        return found

    # --- those that hang

    async def abort_transaction(self, partition: tuple[str, int], producer: ProducerState) -> None:
        """Write an abort marker into one partition without the coordinator of the transaction.

        It is for hanging transactions; use `fence_producers` for those that a coordinator still knows.
        """
        target = TopicPartition(*partition)
        marker = WriteTxnMarkersRequestMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch,
            transaction_result=False,
            topics=[WriteTxnMarkersRequestTopic(name=target.topic, partition_indexes=[target.partition])],
        )

        await self._ask_leader(
            target,
            WriteTxnMarkersRequest(markers=[marker]),
            WriteTxnMarkersResponse,
            lambda reply: (
                answer for marker in reply.markers for topic in marker.topics for answer in topic.partitions
            ),
        )

    async def find_hanging_transactions(
        self, partitions: Iterable[tuple[str, int]], *, open_ms: int = 15 * 60_000
    ) -> list[HangingTransaction]:
        """Return transactions in these partitions that have been open for too long and that no coordinator knows."""
        before_ms = time.time_ns() // 1_000_000 - open_ms
        found = []
        for target, producers in (await self.describe_producers(partitions)).items():
            if isinstance(producers, ApiError):
                raise producers
            found += [
                HangingTransaction(target, producer)
                for producer in producers
                if producer.transaction_start_offset is not None and producer.last_timestamp_ms <= before_ms
            ]
        if not found:
            return []
        known = await self._known_partitions({item.producer.producer_id for item in found})
        return [item for item in found if item.partition not in known.get(item.producer.producer_id, ())]

    async def _known_partitions(self, producer_ids: Iterable[int]) -> dict[int, tuple[TopicPartition, ...]]:
        """Return the partitions of each producer for which a coordinator will still write a marker."""
        listed = await self.list_transactions(producer_ids=producer_ids)
        described = await self.describe_transactions(item.transactional_id for item in listed)
        known: dict[int, tuple[TopicPartition, ...]] = {}
        for found in described.values():
            if not isinstance(found, ApiError):
                known[found.producer_id] = found.partitions
            elif found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise found
        return known

    # --- inside

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription | ApiError:
        coordinator = Coordinator(self._cluster, transactional_id, CoordinatorKind.TRANSACTION)

        async def ask() -> TransactionDescription:
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            (found,) = (await coordinator.request(request, DescribeTransactionsResponse)).transaction_states
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id}")
            coordinator.check(found.error_code, "describing")
            return TransactionDescription(
                transactional_id,
                await coordinator.node_id(),
                found.transaction_state,
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout_ms,
                None if found.transaction_start_time_ms == NO_TIMESTAMP else found.transaction_start_time_ms,
                tuple(TopicPartition(item.topic, number) for item in found.topics for number in item.partitions),
            )

        try:
            return await self._cluster.retry(ask, timeout_ms=self._timeout_ms)
        except ApiError as error:
            return error

    async def _producers(self, target: TopicPartition) -> list[ProducerState]:
        topic = DescribeProducersRequestTopic(name=target.topic, partition_indexes=[target.partition])
        reply = await self._ask_leader(
            target,
            DescribeProducersRequest(topics=[topic]),
            DescribeProducersResponse,
            lambda reply: (partition for found in reply.topics for partition in found.partitions),
        )
        return [
            producer
            for found in reply.topics
            for partition in found.partitions
            for producer in _read_producers(partition)
        ]

    async def _ask_leader(
        self, target: TopicPartition, request: Message, reply_type: type[R], answers: Callable[[R], Iterable[Any]]
    ) -> R:
        """Send a request to the leader of a partition, and retry; raises what the leader rejects."""
        check_partition(await self._cluster.topic(target.topic), target.partition)

        async def ask() -> R:
            try:
                leader_id = await self._cluster.leader_id(*target)
                reply = await self._cluster.request(leader_id, request, reply_type)
                for answer in answers(reply):
                    if answer.error_code:
                        message = getattr(answer, "error_message", None) or f"asking the leader of {target}"
                        raise ApiError(ErrorCode(answer.error_code), message)
                return reply
            except (BrokerUnavailable, ApiError):
                self._cluster.forget(target.topic)  # another broker may be the leader by now
                raise

        return await self._cluster.retry(ask, timeout_ms=self._timeout_ms)


def _read_producers(answer: DescribeProducersResponsePartition) -> list[ProducerState]:
    return [
        ProducerState(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            None if producer.current_txn_start_offset == NO_OFFSET else producer.current_txn_start_offset,
        )
        for producer in sorted(answer.active_producers, key=lambda producer: producer.producer_id)
    ]


def _check_filter(name: str, version: int, version_min: int) -> None:
    if version < version_min:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"this broker cannot list transactions by {name}")
