"""What only the controller can do, asked of any broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.unit.server.replication.cluster import Cluster, running, until

from runnel.client.address import Address
from runnel.client.connection import Connection
from runnel.protocol.errors import ErrorCode
from runnel.protocol.message import Message
from runnel.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from runnel.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

R = TypeVar("R", bound=Message)
TIMEOUT_MS = 10_000


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Cluster, int]]:
    """Two brokers that govern themselves, and which of them is not the controller."""
    async with running(2, is_governed=True) as cluster:
        await until(lambda: len(cluster.metadata.image.admitted) == 2)
        yield cluster, 3 - cluster.metadata.image.controller_id


async def ask(cluster: Cluster, broker_id: int, request: Message, reply_type: type[R], version: int) -> R:
    connection = await cluster[broker_id].ask()
    try:
        return await connection.request(request, reply_type, version_max=version)
    finally:
        await connection.close()


async def test_any_broker_takes_what_the_controller_does() -> None:
    async with pair() as (cluster, other):
        image = cluster.metadata.image
        new = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[new, new], timeout_ms=TIMEOUT_MS)
        refused = await ask(cluster, other, request, CreateTopicsResponse, 7)
        assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
        for version in (7, 2):  # replies have more fields in the first
            new.name = f"t{version}"
            created = await ask(
                cluster, other, CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_MS), CreateTopicsResponse, version
            )
            assert [topic.error_code for topic in created.topics] == [0]
            assert f"t{version}" in image.topics
        more = CreatePartitionsRequestTopic(name="t7", count=3, assignments=None)
        grown = await ask(
            cluster, other, CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), CreatePartitionsResponse, 3
        )
        assert [topic.error_code for topic in grown.results] == [0]
        assert image.topics["t7"].partition_count == 3
        elected = await ask(cluster, other, ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse, 2)
        assert elected.error_code == 0
        there = image.topics["t7"].assignment[0][0]
        moved = AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=[3 - there])
        moves = AlterPartitionReassignmentsRequest(
            topics=[AlterPartitionReassignmentsRequestTopic(name="t7", partitions=[moved])]
        )
        altered = await ask(cluster, other, moves, AlterPartitionReassignmentsResponse, 1)
        assert [partition.error_code for partition in altered.responses[0].partitions] == [0]
        await until(lambda: image.topics["t7"].assignment[0] == (3 - there,))
        deleted = await ask(
            cluster,
            other,
            DeleteTopicsRequest(topic_names=["t7", "t2"], timeout_ms=TIMEOUT_MS),
            DeleteTopicsResponse,
            5,
        )
        assert [topic.error_code for topic in deleted.responses] == [0, 0]
        assert image.topics == {}
        unknown = await ask(cluster, other, UnregisterBrokerRequest(broker_id=99), UnregisterBrokerResponse, 0)
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        sent_away = await ask(cluster, other, UnregisterBrokerRequest(broker_id=other), UnregisterBrokerResponse, 0)
        assert sent_away.error_code == 0
        assert not image.is_known(other)


async def test_what_was_sent_on_goes_no_further() -> None:
    """Two brokers that take each other for the controller would send it to and fro for ever."""
    async with pair() as (cluster, other):
        server = cluster[other].server
        assert server is not None
        address = Address(server.endpoints[0].host, server.endpoints[0].port)
        connection = await Connection.open(address, client_id="broker-7-to-controller")
        reply = await connection.request(UnregisterBrokerRequest(broker_id=other), UnregisterBrokerResponse)
        await connection.close()
        assert reply.error_code == ErrorCode.NOT_CONTROLLER
