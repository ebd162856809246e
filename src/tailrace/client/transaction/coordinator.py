"""The requests of a transactional producer, and their retries.

In the first generation of transactions the producer adds each partition before it writes to it. If
`transaction.version` 2 is finalised the leaders do that (KIP-890), and every end of a transaction gives the
producer a new epoch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from tailrace.client.backoff import NEXT_TRANSACTION_BACKOFF, Deadline
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, ClientError, RequestTimeout, TransactionFailed
from tailrace.client.group.coordinator import Coordinator, CoordinatorKind
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.produce.sequence import NO_IDENTITY, Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tailrace.protocol.primitive import ZERO_UUID

T = TypeVar("T")

_FEATURE = "transaction.version"
_FEATURE_LEVEL = 2
_END_VERSION_V2 = 5
_END_VERSION_MAX_V1 = 4
_ADD_PARTITIONS_VERSION_MAX = 3  # later versions are for brokers
_ADD_OFFSETS_VERSION_MAX = 4
_OFFSET_COMMIT_VERSION_MAX_V1 = 4
_OFFSET_COMMIT_NAMES_VERSION_MAX = 5
_INIT_VERSION_MAX = 5
_INIT_VERSION_2PC = 6
_INIT_VERSION_RESUME = 3
PRODUCE_VERSION_MAX_V1 = 11
"""From 12 on, a batch joins its partition to the transaction."""


class TransactionCoordinator:
    """Requests for one transactional id. All raise `ApiError` for a rejected request."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._coordinator = Coordinator(cluster, transactional_id, CoordinatorKind.TRANSACTION)
        self._cluster = cluster
        self._transactional_id = transactional_id

    async def is_v2(self) -> bool:
        """Return whether the cluster has transactions of the second generation."""
        connection = await self._coordinator.connection()
        if connection.finalized_features.get(_FEATURE, 0) < _FEATURE_LEVEL:
            return False
        return connection.version(EndTxnRequest) >= _END_VERSION_V2

    async def init(
        self,
        timeout_ms: int,
        *,
        resume: Identity | None = None,
        enable_2pc: bool = False,
        keep_prepared: bool = False,
    ) -> InitProducerIdResponse:
        """Take the transactional id: older producers are fenced, and their transaction is aborted unless it is kept."""
        connection = await self._coordinator.connection()
        version = connection.version(
            InitProducerIdRequest, _INIT_VERSION_2PC if enable_2pc or keep_prepared else _INIT_VERSION_MAX
        )
        if (enable_2pc or keep_prepared) and version < _INIT_VERSION_2PC:
            text = f"{connection.address} does not support two-phase commit (KIP-939)"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        if resume is not None and version < _INIT_VERSION_RESUME:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{connection.address} does not support a new epoch after a failure (KIP-360)",
            )
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=timeout_ms,
            enable2_pc=enable_2pc,
            keep_prepared_txn=keep_prepared,
        )
        if resume is not None:
            request.producer_id, request.producer_epoch = resume
        reply = await self._coordinator.request(request, InitProducerIdResponse, version_max=version)
        self._coordinator.check(reply.error_code, "taking")
        return reply

    async def add_partitions(self, identity: Identity, targets: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before they are written to."""
        topics: dict[str, list[int]] = {}
        for topic, partition in targets:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=name, partitions=found) for name, found in topics.items()
            ],
        )
        reply = await self._coordinator.request(
            request, AddPartitionsToTxnResponse, version_max=_ADD_PARTITIONS_VERSION_MAX
        )
        codes = {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
            for topic in reply.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
        for target, code in _worst_first(codes):
            self._coordinator.check(code, "", f"adding {target} to the transaction of {self._transactional_id}")

    async def add_offsets(self, identity: Identity, group_id: str) -> None:
        """Add the offsets of a group to the transaction before they are committed."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group_id,
        )
        reply = await self._coordinator.request(request, AddOffsetsToTxnResponse, version_max=_ADD_OFFSETS_VERSION_MAX)
        self._coordinator.check(reply.error_code, f"adding the offsets of group {group_id} to the transaction of")

    async def end(self, identity: Identity, *, commit: bool, is_v2: bool) -> Identity | None:
        """End the transaction; returns the identity of the next one if it changes."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        reply = await self._coordinator.request(
            request, EndTxnResponse, version_max=_END_VERSION_V2 if is_v2 else _END_VERSION_MAX_V1
        )
        self._coordinator.check(reply.error_code, "committing for" if commit else "aborting for")
        if reply.producer_id == NO_IDENTITY.producer_id:
            return None
        return Identity(reply.producer_id, reply.producer_epoch)

    async def commit_offsets(
        self,
        groups: Coordinator,
        identity: Identity,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        is_v2: bool,
    ) -> None:
        """Send offsets to the coordinator of a group, which commits them with the transaction.

        Raises `TransactionFailed` if the topic that the member has read was deleted.
        """
        view, member = self._cluster.view, group.member
        known = {name: view.topics[name].topic_id for name, _ in offsets if name in view.topics}
        read = {name: group.topic_ids[name] for name, _ in offsets if name in group.topic_ids}
        if gone := [name for name in read if known.get(name, ZERO_UUID) not in (ZERO_UUID, read[name])]:
            raise _deleted(gone[0])
        ids = known | read
        version_max = _OFFSET_COMMIT_VERSION_MAX_V1
        if is_v2:
            has_ids = all(ids.get(name, ZERO_UUID) != ZERO_UUID for name, _ in offsets)
            version_max = TxnOffsetCommitRequest.SCHEMA.versions[-1] if has_ids else _OFFSET_COMMIT_NAMES_VERSION_MAX
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=groups.key,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=_offset_topics(offsets, ids),
        )
        reply = await groups.request(request, TxnOffsetCommitResponse, version_max=version_max)
        names = {topic_id: name for name, topic_id in ids.items()}
        codes = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index): ErrorCode(one.error_code)
            for topic in reply.topics
            for one in topic.partitions
        }
        for target, code in _worst_first(codes):
            if code is ErrorCode.UNKNOWN_TOPIC_ID and target.topic in read:
                raise _deleted(target.topic)
            groups.check(code, "", f"committing offset {offsets[target].offset} of {target} for group {groups.key}")

    async def retry(self, action: Callable[[], Awaitable[T]], *, timeout_ms: float, setting: str = "max_block_ms") -> T:
        """Run `action` until it succeeds or fails with an error that is not retriable; raises `RequestTimeout`."""
        deadline = Deadline(timeout_ms)
        failure_count = 0
        while True:
            try:
                return await action()
            except (BrokerUnavailable, RequestTimeout, ApiError) as error:
                if isinstance(error, ApiError) and not error.code.retriable:
                    raise
                failure_count += 1
                wait_s = self.wait_s(error, failure_count)
                if wait_s > deadline.left_s:
                    raise RequestTimeout(
                        f"the call did not complete within {timeout_ms:g} ms ({setting}): {error}"
                    ) from error
            await asyncio.sleep(wait_s)

    def wait_s(self, error: ClientError | ApiError, failure_count: int) -> float:
        """Return how long to wait before the next attempt."""
        is_early = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        return (NEXT_TRANSACTION_BACKOFF if is_early else self._cluster.backoff).wait_s(failure_count)


def _worst_first(codes: Mapping[TopicPartition, ErrorCode]) -> list[tuple[TopicPartition, ErrorCode]]:
    """Sort errors: those that are not retriable, then retriable ones, then those that follow from others."""
    refused = [(target, code) for target, code in codes.items() if code]
    return sorted(refused, key=lambda item: (item[1] is ErrorCode.OPERATION_NOT_ATTEMPTED, item[1].retriable))


def _deleted(topic: str) -> TransactionFailed:
    return TransactionFailed(f"{topic} was deleted after the group had read it; abort the transaction")


def _offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, UUID]
) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for target, wanted in offsets.items():
        topics.setdefault(target.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=target.partition,
                committed_offset=wanted.offset,
                committed_leader_epoch=wanted.leader_epoch,
                committed_metadata=wanted.metadata,
            )
        )
    return [
        TxnOffsetCommitRequestTopic(name=name, topic_id=ids.get(name, ZERO_UUID), partitions=found)
        for name, found in topics.items()
    ]
