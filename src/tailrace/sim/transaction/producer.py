"""A transactional producer that records its operations and their outcomes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from tailrace.client.error import RequestTimeout
from tailrace.client.produce.delivery import RecordMetadata
from tailrace.client.produce.sequence import NO_IDENTITY, Identity
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.face import SimConsumer, open_producer
from tailrace.sim.history import Pending
from tailrace.sim.refusal import settle_failed_send
from tailrace.sim.workload import FAILURES, partition_name
from tailrace.sim.world import ACKNOWLEDGED, World

COMMITTED, ABORTED = "transactions committed", "transactions aborted"
_TRIES_MAX = 3


class RecordedProducer:
    """One run of a producer. Errors are recorded and raised."""

    def __init__(self, world: World, name: str, transactional_id: str, settings: Mapping[str, SettingValue]) -> None:
        config = {**settings, "transactional.id": transactional_id}
        self._producer: Any = open_producer(world, name, config)
        self._world = world
        self._name = name
        self._id = transactional_id
        self._count = 0
        self._transaction = ""
        self._sending: list[asyncio.Task[bool]] = []

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.__aexit__(kind, error, trace)

    @property
    def identity(self) -> Identity:
        """The current producer id and epoch."""
        return self._producer._core.transactional().identity or NO_IDENTITY

    async def init(self) -> None:
        """Initialise transactions, which fences all other producers with the id."""
        operation = self._note("init", transactional_id=self._id)
        try:
            await self._producer.init_transactions()
        except FAILURES as error:
            operation.unknown(error)
            raise
        operation.ok()

    async def begin(self) -> str:
        """Begin a transaction and return its name."""
        self._count += 1
        self._transaction = f"{self._name}:{self._count}"
        self._sending = []
        operation = self._note("begin", transaction=self._transaction, transactional_id=self._id)
        await self._producer.begin_transaction()
        operation.ok()
        return self._transaction

    async def send(self, topic: str, partition: int, value: str, **asked: object) -> None:
        """Send a value without waiting for its acknowledgement."""
        place = partition_name((topic, partition))
        operation = self._note("send", partition=place, value=value, transaction=self._transaction, **asked)
        try:
            future = await self._producer.send(topic, value.encode(), partition=partition)
        except FAILURES as error:
            operation.fail(error)
            raise
        self._sending.append(asyncio.get_running_loop().create_task(self._settle(operation, future)))

    async def _settle(self, operation: Pending, future: Awaitable[RecordMetadata]) -> bool:
        try:
            metadata = await future
        except FAILURES as error:
            settle_failed_send(operation, error)
            return False
        operation.ok(offset=metadata.offset)
        return True

    async def send_offsets(self, consumer: SimConsumer, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Add offsets of a group to the transaction."""
        named = {partition_name(target): offset for target, offset in offsets.items()}
        operation = self._note("offsets", transaction=self._transaction, group=group, offsets=named)
        try:
            await self._producer.send_offsets(dict(offsets), consumer)
        except FAILURES as error:
            operation.unknown(error)
            raise
        operation.ok()

    async def commit(self) -> None:
        """Commit, retrying while the outcome is unknown."""
        operation = self._note("end", transaction=self._transaction, commit=True)
        try:
            await self._end(self._producer.commit_transaction)
        except FAILURES as error:
            # The commit is requested only after everything was acknowledged.
            is_asked = all(await asyncio.gather(*self._sending))
            (operation.unknown if is_asked else operation.fail)(error)
            raise
        await asyncio.gather(*self._sending)
        operation.ok()
        self._world.count(COMMITTED)
        self._world.count(ACKNOWLEDGED)

    async def abort(self) -> None:
        """Abort the transaction."""
        operation = self._note("end", transaction=self._transaction, commit=False)
        try:
            await self._end(self._producer.abort_transaction)
        except FAILURES as error:
            operation.unknown(error)
            raise
        await asyncio.gather(*self._sending)
        operation.ok()
        self._world.count(ABORTED)

    async def _end(self, action: Callable[[], Awaitable[None]]) -> None:
        for attempt in range(_TRIES_MAX):
            try:
                await action()
            except RequestTimeout:
                if attempt == _TRIES_MAX - 1:
                    raise
            else:
                return

    def _note(self, kind: str, **asked: object) -> Pending:
        return self._world.recorder.invoke(self._name, kind, **asked)
