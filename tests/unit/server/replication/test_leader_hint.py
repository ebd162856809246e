"""A broker that no longer leads says who does, and clients go there without asking (KIP-951)."""

import asyncio
from typing import Any
from uuid import UUID

from tests.unit.sample import make_batch
from tests.unit.server.replication.cluster import DEADLINE_S, Cluster, running

from tailrace.aio import Consumer, Producer
from tailrace.machines.controller.record import TopicRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponse
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)

NEVER_MS = 600_000


async def produce(cluster: Cluster, broker_id: int, topic_id: UUID, version_max: int) -> ProduceResponse:
    connection = await cluster[broker_id].ask()
    try:
        data = ProduceRequestPartition(index=0, records=bytes(make_batch(b"v")))
        topic = ProduceRequestTopic(name="t", topic_id=topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
        return await connection.request(request, ProduceResponse, version_max=version_max)
    finally:
        await connection.close()


async def fetch(cluster: Cluster, broker_id: int, topic_id: UUID, version_max: int, epoch: int) -> FetchResponse:
    connection = await cluster[broker_id].ask()
    try:
        wanted = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1, current_leader_epoch=epoch)
        topic = FetchRequestTopic(topic="t", topic_id=topic_id, partitions=[wanted])
        return await connection.request(FetchRequest(topics=[topic]), FetchResponse, version_max=version_max)
    finally:
        await connection.close()


async def test_a_producer_hears_who_leads_and_where() -> None:
    async with running(2) as cluster:
        topic_id = await cluster.create([(1, 2)])
        await cluster.elect(2, (1, 2))
        address = cluster.bootstrap_servers[1]
        for version in (13, 12, 10):
            response = await produce(cluster, 1, topic_id, version)
            (reply,) = response.responses[0].partition_responses
            assert reply.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert reply.current_leader is not None
            assert (reply.current_leader.leader_id, reply.current_leader.leader_epoch) == (2, 1)
            (node,) = response.node_endpoints
            assert (node.node_id, f"{node.host}:{node.port}", node.rack) == (2, address, "rack-2")
        response = await produce(cluster, 1, topic_id, 9)
        assert response.responses[0].partition_responses[0].current_leader is None
        response = await produce(cluster, 2, topic_id, 13)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert response.node_endpoints == []


async def test_a_partition_that_nobody_leads_has_no_hint() -> None:
    async with running(2) as cluster:
        topic_id = await cluster.create([(1, 2)])
        await cluster.elect(-1, (1,))
        response = await produce(cluster, 1, topic_id, 13)
        (reply,) = response.responses[0].partition_responses
        assert (reply.error_code, reply.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        assert response.node_endpoints == []


async def test_a_reader_hears_who_leads_and_in_which_epoch() -> None:
    async with running(2) as cluster:
        topic_id = await cluster.create([(1,)])
        await cluster.elect(1, (1,))
        for version, broker_id, epoch, code in (
            (17, 1, 0, ErrorCode.FENCED_LEADER_EPOCH),
            (16, 2, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            response = await fetch(cluster, broker_id, topic_id, version, epoch)
            (reply,) = response.responses[0].partitions
            assert reply.error_code == code
            assert reply.current_leader is not None
            assert (reply.current_leader.leader_id, reply.current_leader.leader_epoch) == (1, 1)
            assert [node.node_id for node in response.node_endpoints] == [1]
        response = await fetch(cluster, 2, topic_id, 15, -1)
        assert response.responses[0].partitions[0].current_leader is None


async def test_a_producer_follows_the_leader_without_waiting() -> None:
    """The pause before another attempt is longer than the test may take."""
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        options: dict[str, Any] = {
            "retry_backoff_ms": NEVER_MS,
            "retry_backoff_max_ms": NEVER_MS,
            "delivery_timeout_ms": NEVER_MS * 2,
        }
        async with Producer(cluster.bootstrap_servers, **options) as producer, asyncio.timeout(DEADLINE_S):
            await (await producer.send("t", b"0", partition=0))
            for number, leader in enumerate((2, 1, 2), start=1):
                await cluster.elect(leader, (1, 2))
                metadata = await (await producer.send("t", b"%d" % number, partition=0))
                assert metadata.offset == number


async def test_a_consumer_follows_a_partition_that_moved_without_waiting() -> None:
    async with running(2) as cluster:
        topic_id = await cluster.create([(1, 2)])
        assert (await cluster.produce(1, b"0")).error_code == ErrorCode.NONE
        options: dict[str, Any] = {
            "retry_backoff_ms": NEVER_MS,
            "retry_backoff_max_ms": NEVER_MS,
            "fetch_max_wait_ms": 50,
        }
        async with Consumer(cluster.bootstrap_servers, **options) as consumer, asyncio.timeout(DEADLINE_S):
            consumer.assign([("t", 0, "earliest")])
            assert (await anext(consumer)).value == b"0"
            await cluster.elect(2, (2,))
            await cluster.commit(TopicRecord("t", topic_id, ((2,),)))
            assert (await cluster.produce(2, b"1")).error_code == ErrorCode.NONE
            assert (await anext(consumer)).value == b"1"


async def test_a_consumer_goes_on_without_waiting_when_its_leader_is_elected_again() -> None:
    """It says which leader it means, and hears that this one is in another epoch by now (KIP-320)."""
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        assert (await cluster.produce(1, b"0")).error_code == ErrorCode.NONE
        options: dict[str, Any] = {
            "retry_backoff_ms": NEVER_MS,
            "retry_backoff_max_ms": NEVER_MS,
            "fetch_max_wait_ms": 50,
        }
        async with Consumer(cluster.bootstrap_servers, **options) as consumer, asyncio.timeout(DEADLINE_S):
            consumer.assign([("t", 0, "earliest")])
            assert (await anext(consumer)).value == b"0"
            await cluster.elect(1, (1, 2))
            assert (await cluster.produce(1, b"1")).error_code == ErrorCode.NONE
            assert (await anext(consumer)).value == b"1"
