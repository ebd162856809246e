"""Several brokers in one process over one metadata tree, without sockets; their controller is one of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.sample import LISTENER, abandon

from tailrace.base.clock import SystemClock
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import Endpoint, PartitionRecord
from tailrace.machines.controller.topic import NewTopic
from tailrace.runtime.broker import Broker
from tailrace.runtime.opener import start_broker
from tailrace.storage.memory_fs import MemoryFileSystem

DEADLINE_S = 60.0


class Members:
    """Brokers by id, each with a disk that outlives it."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.brokers: dict[int, Broker] = {}
        self.stores: dict[int, MemoryStore] = {}
        self.disks: dict[int, MemoryFileSystem] = {}

    async def start(self, broker_id: int, **settings: str) -> Broker:
        """Start a broker; setting names are written with underscores."""
        disk = self.disks.setdefault(broker_id, MemoryFileSystem())
        store = MemoryStore(self.tree, SystemClock())
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig({"node.id": str(broker_id), "log.dirs": "/data", **texts})
        endpoint = Endpoint(LISTENER, "127.0.0.1", broker_id, "PLAINTEXT")
        broker = await start_broker(config, fs=disk, store=store, endpoints=[endpoint])
        self.brokers[broker_id], self.stores[broker_id] = broker, store
        return broker

    async def stop(self, broker_id: int) -> None:
        """Stop a broker as an operator does."""
        await self.brokers.pop(broker_id).stop()

    async def kill(self, broker_id: int) -> None:
        """End a broker as SIGKILL does; the servers end its session."""
        broker = self.brokers.pop(broker_id)
        await abandon(broker)
        await self.stores[broker_id].close()
        self.disks[broker_id].kill()

    @property
    def image(self) -> ClusterImage:
        """What one of them knows."""
        return next(iter(self.brokers.values())).image

    @property
    def controller(self) -> Broker:
        return self.brokers[self.image.controller_id]

    def state(self, index: int = 0, name: str = "t") -> PartitionRecord:
        return self.image.topics[name].leadership[index]

    async def create(self, *assignment: list[int], name: str = "t", **configs: str) -> None:
        """Make a topic by way of the controller."""
        values = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, assignment=dict(enumerate(assignment)), configs=values)
        await self.controller.controller.create_topic(new, self.controller.topic_defaults)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def members(*broker_ids: int, **settings: str) -> AsyncIterator[Members]:
    """Brokers from start to stop."""
    cluster = Members()
    try:
        for broker_id in broker_ids:
            await cluster.start(broker_id, **settings)
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            broker.membership._is_leaving = True  # nobody is left to lead
            await broker.stop()
