"""Nodes with keys in a real ZooKeeper, which clients without the brokers' password cannot read."""

import asyncio
from itertools import permutations
from uuid import uuid4

import pytest
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.record import ConfigKind, ConfigRecord
from tailrace.machines.controller.security_record import TokenRecord

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tailrace.coordination.zookeeper.link import ZooKeeperServers
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore


async def test_the_keys_of_users_and_tokens_are_not_readable_to_others(zookeeper: ZooKeeperProcess) -> None:
    root = f"/{uuid4().hex}"
    servers = ZooKeeperServers(zookeeper.address, 60_000, digest="tailrace:secret")
    owner = ZooKeeperStore(servers, root=root, sets_acl=True)
    await owner.open(60_000)
    metadata = ClusterMetadata(owner)
    await metadata.load()
    await metadata.commit(
        [ConfigRecord(ConfigKind.USER_CLIENT, entity_name("bob", "app"), {"request_percentage": "1"})]
    )
    for name in ("alice", "bob", ".."):
        await metadata.commit([ConfigRecord(ConfigKind.USER, entity_name(name), {"SCRAM-SHA-256": "salt=x"})])
    await metadata.commit([TokenRecord("token", "User:alice", "User:alice", (), 1, 2, 3)])
    assert metadata.image.config(ConfigKind.USER, entity_name("bob")) == {"SCRAM-SHA-256": "salt=x"}
    stranger = KazooClient(zookeeper.address)
    await asyncio.to_thread(stranger.start)
    paths = await owner.tree("/")
    assert len(paths) == 5
    for path in paths:
        with pytest.raises(NoAuthError):
            await asyncio.to_thread(stranger.get, root + path)
    await asyncio.to_thread(stranger.stop)
    await asyncio.to_thread(stranger.close)
    await owner.close()


async def test_users_and_their_clients_come_and_go_in_any_order(zookeeper: ZooKeeperProcess) -> None:
    """ZooKeeper keeps the places above nodes, which must neither be in the way of a user nor remain."""
    pairs = [
        (ConfigKind.USER, entity_name("u")),
        (ConfigKind.USER_CLIENT, entity_name("u", "c")),
        (ConfigKind.USER_CLIENT, entity_name("u", None)),
    ]
    store = ZooKeeperStore(ZooKeeperServers(zookeeper.address, 60_000), root=f"/{uuid4().hex}")
    await store.open(60_000)
    metadata = ClusterMetadata(store)
    await metadata.load()
    for came in permutations(pairs):
        for went in permutations(pairs):
            for kind, name in came:
                await metadata.commit([ConfigRecord(kind, name, {"producer_byte_rate": "1"})])
            for kind, name in went:
                await metadata.commit([ConfigRecord(kind, name, {})])
            assert await store.tree("/") == {}
    await store.close()
