"""Partitions moved and leaders elected through the client, with one broker and with three."""

import asyncio

import pytest
from tests.unit.server.replication.cluster import until

import tailrace
from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.cluster import Cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.server.server import Server, start_server
from tailrace.storage.memory_fs import MemoryFileSystem


def test_a_broker_alone_has_nowhere_to_move_to(bootstrap: str, topic: str) -> None:
    with tailrace.Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        there = TopicPartition(topic, 0)
        errors = admin.alter_partition_reassignments({there: [1, 99]}, keep_replication_factor=True)
        error = errors[there]
        assert error is not None
        assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert admin.alter_partition_reassignments({there: [1]}) == {there: None}
        assert admin.list_partition_reassignments() == {}
        needless = admin.elect_leaders([there])[there]
        assert needless is not None
        assert needless.code is ErrorCode.ELECTION_NOT_NEEDED
        assert there not in admin.elect_leaders()
        with pytest.raises(ApiError) as caught:
            admin.unregister_broker(99)
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_partition_moves_with_its_records_and_its_leader() -> None:
    """The whole way: real servers, real fetchers, a controller of their own."""
    tree = MemoryTree()
    servers: list[Server] = []
    options = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", "replica.fetch.wait.max.ms": "50"}
    try:
        for broker_id in ("1", "2", "3"):
            config = BrokerConfig({**options, "node.id": broker_id})
            servers.append(await start_server(config, fs=MemoryFileSystem(), store=MemoryStore(tree)))
        image = servers[0].broker.image
        async with Cluster(f"127.0.0.1:{servers[2].endpoints[0].port}") as cluster:
            admin, there = Admin(cluster), TopicPartition("t", 0)
            await admin.create_topics([NewTopic("t", 1, 1)])
            old = image.topics["t"].assignment[0]
            new = tuple(broker for broker in (1, 2, 3) if broker not in old)
            assert await admin.alter_partition_reassignments({there: new}) == {there: None}
            moves = await admin.list_partition_reassignments()
            assert moves in ({there: Reassignment((*new, *old), new, old)}, {})
            await until(lambda: image.topics["t"].assignment[0] == new)
            await until(lambda: image.topics["t"].leadership[0].isr == new)
            assert image.topics["t"].leadership[0].leader == new[0]
            assert await admin.list_partition_reassignments() == {}
    finally:
        await asyncio.gather(*(server.stop() for server in servers))
