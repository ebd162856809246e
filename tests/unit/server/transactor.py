"""A transactional producer of few words, which asks one broker or those of a cluster."""

import asyncio
from collections.abc import Iterable
from typing import Any

from tests.unit.sample import make_batch
from tests.unit.server.handlers.peer import Peer
from tests.unit.server.replication.cluster import Cluster

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tailrace.protocol.messages.producer import InitProducerIdRequest
from tailrace.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    EndTxnRequest,
)
from tailrace.protocol.messages.transaction_admin import DescribeTransactionsRequest
from tailrace.protocol.registry import response_type
from tailrace.records.record import read_batches, read_records

STATE = "__transaction_state"
BUSY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


class Transactor:
    """One transactional id. Of version 1 it adds partitions itself, of version 2 the brokers do (KIP-890)."""

    def __init__(self, name: str = "x", *, version: int = 1, timeout_ms: int = 60_000) -> None:
        self.name = name
        self.producer_id = self.epoch = -1
        self._is_new = version == 2
        self._timeout_ms = timeout_ms
        self._sequences: dict[int, int] = {}

    async def init(self) -> ErrorCode:
        """Become the producer of the transactional id."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self._timeout_ms)
        reply = await self.ask_coordinator(request, 5)
        if not reply.error_code:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self._sequences = {}
        return ErrorCode(reply.error_code)

    async def add(self, *partitions: int) -> set[ErrorCode]:
        """Bring partitions of the topic `t` into the transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequestTopic(name="t", partitions=list(partitions))],
        )
        reply = await self.ask_coordinator(request, 3)
        topics = reply.results_by_topic_v3_and_below
        return {ErrorCode(each.partition_error_code) for topic in topics for each in topic.results_by_partition}

    async def write(self, partition: int, *values: bytes) -> ErrorCode:
        """Send records to the leader of a partition."""
        sequence = self._sequences.get(partition, 0)
        batch = make_batch(*values, producer=(self.producer_id, self.epoch, sequence), is_transactional=True)
        data = ProduceRequestPartition(index=partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequestTopic(name="t", partition_data=[data])],
        )
        reply = await self.ask_leader(partition, request, 12 if self._is_new else 11)
        code = ErrorCode(reply.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self._sequences[partition] = sequence + len(values)
        return code

    async def end(self, *, is_commit: bool = True) -> ErrorCode:
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        reply = await self.ask_coordinator(request, 5 if self._is_new else 3)
        if self._is_new and not reply.error_code:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self._sequences = {}
        return ErrorCode(reply.error_code)

    async def state(self) -> str:
        """What the coordinator says of the transactional id."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        reply = await self.ask_coordinator(request, 0)
        (found,) = reply.transaction_states
        return found.transaction_state or ErrorCode(found.error_code).name

    async def until_state(self, *wanted: str) -> None:
        """Wait until the transactional id is in one of these states."""
        async with asyncio.timeout(60):
            while await self.state() not in wanted:
                await asyncio.sleep(0.01)

    async def patiently(self, step: Any) -> ErrorCode:
        """Take a step, again while it has to wait."""
        async with asyncio.timeout(60):
            while (code := await step()) in BUSY:
                await asyncio.sleep(0.01)
        return ErrorCode(code)

    async def ask_coordinator(self, request: Message, version: int) -> Any:
        """The reply of the broker that coordinates."""
        raise NotImplementedError

    async def ask_leader(self, partition: int, request: Message, version: int) -> Any:
        """The reply of the broker that leads a partition of `t`."""
        raise NotImplementedError


class PeerTransactor(Transactor):
    """One that asks the dispatcher of a single broker."""

    def __init__(self, peer: Peer, name: str = "x", *, version: int = 1, timeout_ms: int = 60_000) -> None:
        super().__init__(name, version=version, timeout_ms=timeout_ms)
        self.peer = peer

    async def ask_coordinator(self, request: Message, version: int) -> Any:
        return await self.peer.ask(request, version)

    async def ask_leader(self, partition: int, request: Message, version: int) -> Any:
        return await self.peer.ask(request, version)


class ClusterTransactor(Transactor):
    """One that connects to the brokers of a cluster."""

    def __init__(self, cluster: Cluster, name: str = "x", *, version: int = 1, timeout_ms: int = 60_000) -> None:
        super().__init__(name, version=version, timeout_ms=timeout_ms)
        self._cluster = cluster

    async def ask_coordinator(self, request: Message, version: int) -> Any:
        return await self._ask(self._cluster.state(STATE).leader, request, version)

    async def ask_leader(self, partition: int, request: Message, version: int) -> Any:
        return await self._ask(self._cluster.state(index=partition).leader, request, version)

    async def _ask(self, broker_id: int, request: Message, version: int) -> Any:
        connection = await self._cluster[broker_id].ask()
        try:
            key = request.SCHEMA.key
            assert key is not None
            return await connection.request(request, response_type(key), version_max=version)
        finally:
            await connection.close()


async def read_committed(reader: Transactor, partition: int) -> list[bytes | None]:
    """What a reader of committed records sees in a partition of the topic `t`."""
    data, aborted, offset, end = b"", set[tuple[int, int]](), 0, 1
    while offset < end:
        wanted = FetchRequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**20)
        request = FetchRequest(topics=[FetchRequestTopic(topic="t", partitions=[wanted])], isolation_level=1)
        reply = await reader.ask_leader(partition, request, 12)
        (answer,) = reply.responses[0].partitions
        assert answer.error_code == 0
        aborted |= {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
        piece = bytes(answer.records or b"")
        data += piece
        end = answer.last_stable_offset
        offset = max((header.last_offset + 1 for _, header in read_batches(piece)), default=end)
    return list(_visible(data, aborted))


def _visible(data: bytes, aborted: set[tuple[int, int]]) -> Iterable[bytes | None]:
    hidden: set[int] = set()
    for position, header in read_batches(data):
        if header.is_control:
            hidden.discard(header.producer_id)
            continue
        if (header.producer_id, header.base_offset) in aborted:
            hidden.add(header.producer_id)
        if header.producer_id not in hidden or not header.is_transactional:
            yield from (record.value for record in read_records(data, position))
