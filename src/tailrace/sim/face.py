"""The clients of simulated programs, of asyncio or with a thread, with the same methods.

A program calls a client with a thread from a thread of its own, which acts between any two steps of the client's loop.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, ParamSpec, Self, TypeVar

import tailrace
import tailrace.aio
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.produce.delivery import RecordMetadata
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.executor import OwnThread
from tailrace.sim.world import World

P = ParamSpec("P")
T = TypeVar("T")
Settings = Mapping[str, SettingValue]

_THREADED_SHARE = 0.3


class _Threaded:
    """Calls a client in one thread, and closes it at the end."""

    client: Any

    def __init__(self) -> None:
        self._core = self.client._core
        self._thread = OwnThread()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._call(self.client.close)

    async def _call(self, method: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: method(*arguments, **options))


class ThreadedProducer(_Threaded):
    """`tailrace.Producer`, called like `tailrace.aio.Producer`."""

    def __init__(self, bootstrap: str, *, config: Settings) -> None:
        self.client = tailrace.Producer(bootstrap, config=config)
        super().__init__()

    async def send(
        self, topic: str, value: bytes, *, partition: int, timestamp_ms: int | None = None
    ) -> "asyncio.Future[RecordMetadata]":
        options = {"partition": partition, "timestamp_ms": timestamp_ms}
        return asyncio.wrap_future(await self._call(self.client.send, topic, value, **options))

    async def init_transactions(self) -> None:
        await self._call(self.client.init_transactions)

    async def begin_transaction(self) -> None:
        await self._call(self.client.begin_transaction)

    async def send_offsets(self, offsets: Any, consumer: "ThreadedConsumer") -> None:
        await self._call(self.client.send_offsets, offsets, consumer.client)

    async def commit_transaction(self) -> None:
        await self._call(self.client.commit_transaction)

    async def abort_transaction(self) -> None:
        await self._call(self.client.abort_transaction)


class ThreadedConsumer(_Threaded):
    """`tailrace.Consumer`, called like `tailrace.aio.Consumer`."""

    def __init__(self, bootstrap: str, *, config: Settings) -> None:
        self.client = tailrace.Consumer(bootstrap, config=config)
        super().__init__()

    def assign(self, places: Sequence[Any]) -> Self:
        self.client.assign(places)
        return self

    def subscribe(self, topics: str | re.Pattern[str], **listeners: Any) -> Self:
        self.client.subscribe(topics, **listeners)
        return self

    def group_metadata(self) -> GroupMetadata:
        metadata: GroupMetadata = self.client.group_metadata()
        return metadata

    def assignment(self) -> Any:
        return self.client.assignment()

    def seek(self, topic: str, partition: int, place: Any) -> None:
        self.client.seek(topic, partition, place)

    async def poll(self, timeout_s: float) -> list[ConsumerRecord]:
        return await self._call(self.client.poll, timeout_s)

    async def commit(self, offsets: Mapping[Any, Any]) -> None:
        await self._call(self.client.commit, offsets)

    async def committed(
        self, targets: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._call(self.client.committed, targets)


SimProducer = tailrace.aio.Producer | ThreadedProducer
SimConsumer = tailrace.aio.Consumer | ThreadedConsumer


def open_producer(world: World, name: str, config: Settings) -> SimProducer:
    """Return a producer of the kind that the seed chooses for the client of this name."""
    return (ThreadedProducer if _is_threaded(world, name) else tailrace.aio.Producer)(world.bootstrap, config=config)


def open_consumer(world: World, name: str, config: Settings) -> SimConsumer:
    """Return a consumer of this kind."""
    return (ThreadedConsumer if _is_threaded(world, name) else tailrace.aio.Consumer)(world.bootstrap, config=config)


def _is_threaded(world: World, name: str) -> bool:
    is_threaded = Random(f"face {name} {world.seed}").random() < _THREADED_SHARE
    world.count(f"clients {'with a thread' if is_threaded else 'of asyncio'}")
    return is_threaded
