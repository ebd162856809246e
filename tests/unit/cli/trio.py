"""Three brokers in the test's event loop, for commands about clusters."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.unit.cli.conftest import Run
from tests.unit.server.replication.cluster import until

from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.machines.controller.record import PartitionRecord
from tailrace.server.server import Server, start_server
from tailrace.storage.memory_fs import MemoryFileSystem

_OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "log.dirs": "/data",
    "replica.fetch.wait.max.ms": "50",
    "controlled.shutdown.retry.backoff.ms": "10",
    "auto.leader.rebalance.enable": "false",
}


class Trio:
    """Brokers 1, 2 and 3, in the racks a, b and a."""

    def __init__(self, run: Run) -> None:
        self.servers: dict[int, Server] = {}
        self._run = run
        self._tree = MemoryTree()
        self._disks = {broker_id: MemoryFileSystem() for broker_id in (1, 2, 3)}

    async def start(self, broker_id: int) -> None:
        config = BrokerConfig({**_OPTIONS, "node.id": str(broker_id), "broker.rack": "aba"[broker_id - 1]})
        fs, store = self._disks[broker_id], MemoryStore(self._tree)
        self.servers[broker_id] = await start_server(config, fs=fs, store=store)
        await until(self._is_settled)

    async def stop(self, broker_id: int) -> None:
        await self.servers.pop(broker_id).stop()
        await until(self._is_settled)

    def _is_settled(self) -> bool:
        """Whether all brokers know which brokers there are, and have a controller."""
        images = [server.broker.image for server in self.servers.values()]
        there = set(self.servers)
        return all(set(image.brokers) == there and image.controller_id in there for image in images)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{server.endpoints[0].port}" for server in self.servers.values())

    async def create(self, topic: str) -> tuple[int, int]:
        """Create a topic of one partition with two replicas, and return these."""
        async with Cluster(self.bootstrap) as cluster:
            await Admin(cluster).create_topics([NewTopic(topic, 1, 2)])
        await self.until(topic, lambda found: len(found.isr) == 2)
        server = next(iter(self.servers.values()))
        first, second = server.broker.image.topics[topic].assignment[0]
        return first, second

    async def until(self, topic: str, holds: Callable[[PartitionRecord], bool]) -> None:
        """Wait until the condition holds for the partition in the metadata of all brokers."""

        def everywhere() -> bool:
            images = [server.broker.image for server in self.servers.values()]
            return all(topic in image.topics and holds(image.topics[topic].leadership[0]) for image in images)

        await until(everywhere)

    async def call(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command in another thread, while the brokers serve it."""
        return await asyncio.to_thread(self._run, *arguments, "--bootstrap-server", self.bootstrap)


@asynccontextmanager
async def trio(run: Run) -> AsyncIterator[Trio]:
    brokers = Trio(run)
    try:
        for broker_id in (1, 2, 3):
            await brokers.start(broker_id)
        yield brokers
    finally:
        await asyncio.gather(*(server.stop() for server in brokers.servers.values()))
