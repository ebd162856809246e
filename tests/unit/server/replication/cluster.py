"""A few brokers in one process over one metadata tree, with a controller that is the test itself."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from uuid import UUID, uuid4

from tests.unit.sample import abandon, make_batch, records_of

from tailrace.base.clock import SystemClock
from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.machines.replica.leader import LONG_AGO_MS
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from tailrace.records.record import read_batches
from tailrace.runtime.partition import Partition
from tailrace.server.server import Server, start_server
from tailrace.storage.memory_fs import MemoryFileSystem

QUICK = {
    "replica.fetch.wait.max.ms": "50",
    "replica.fetch.backoff.ms": "20",
    "replica.lag.time.max.ms": "60000",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "num.replica.fetchers": "2",
    "controlled.shutdown.enable": "false",
}
DEADLINE_S = 60.0


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, not for a time."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


class Member:
    """One broker: its disk, which outlives it, and its process."""

    def __init__(self, cluster: "Cluster", broker_id: int) -> None:
        self.broker_id = broker_id
        self.fs = MemoryFileSystem()
        self.store: MemoryStore | None = None
        self.server: Server | None = None
        self._cluster = cluster

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        assert self.server is not None
        return self.server.broker.replicas.get(topic, index)

    async def start(self, **settings: str) -> None:
        texts = {
            **QUICK,
            "node.id": str(self.broker_id),
            "log.dirs": f"/data-{self.broker_id}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "broker.rack": f"rack-{self.broker_id}",
            **self._cluster.settings,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        clock = SystemClock()
        self.store = MemoryStore(self._cluster.tree, clock)
        self.server = await start_server(BrokerConfig(texts), fs=self.fs, clock=clock, store=self.store)

    async def stop(self) -> None:
        assert self.server is not None
        server, self.server = self.server, None
        await server.stop()

    async def kill(self) -> None:
        """End it as SIGKILL does: what is written is there, nothing more is said."""
        assert self.server is not None
        server, self.server = self.server, None
        self.fs.kill()
        await server.stop()

    async def crash(self) -> None:
        """End it as SIGKILL does, with its connections and its session, and without a word to the others."""
        assert self.server is not None
        assert self.store is not None
        server, self.server = self.server, None
        broker = server.broker
        await broker.background.stop()
        self.fs.kill()
        await self.store.close()
        await abandon(broker)
        server.undo.pop_all()
        await server.listeners.close()

    async def ask(self) -> Connection:
        assert self.server is not None
        listener = self.server.endpoints[0]
        return await Connection.open(Address(listener.host, listener.port))


class Cluster:
    """Brokers 1 to N, and the records that make them one."""

    def __init__(self, count: int, **settings: str) -> None:
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.tree = MemoryTree()
        self.metadata = ClusterMetadata(MemoryStore(self.tree))
        self._admissions: set[asyncio.Task[None]] = set()
        self.members = {broker_id: Member(self, broker_id) for broker_id in range(1, count + 1)}

    def __getitem__(self, broker_id: int) -> Member:
        return self.members[broker_id]

    async def begin(self) -> None:
        """Be the controller, and do nothing unasked but admit brokers."""
        await self.metadata.load()
        await self.commit(ControllerRecord(0, 1))
        self.metadata.listen(self._admit)

    def _admit(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, BrokerRecord):
                admission = asyncio.create_task(self.commit(BrokerAdmitted(record.broker_id, record.epoch)))
                self._admissions.add(admission)
                admission.add_done_callback(self._admissions.discard)

    async def commit(self, *records: Record) -> None:
        await self.metadata.commit(records)

    async def create(
        self,
        assignment: Sequence[tuple[int, ...]] = ((1, 2, 3),),
        *,
        topic: str = "t",
        isr: tuple[int, ...] | None = None,
        **configs: str,
    ) -> UUID:
        """Make a topic whose partitions are led by the first of their replicas."""
        topic_id = uuid4()
        states = [
            PartitionRecord(topic, index, replicas[0], 0, replicas if isr is None else isr)
            for index, replicas in enumerate(assignment)
        ]
        values = {name.replace("_", "."): value for name, value in configs.items()}
        config = [ConfigRecord(ConfigKind.TOPIC, topic, values)] if values else []
        await self.commit(*config, TopicRecord(topic, topic_id, tuple(assignment)), *states)
        for member in self.members.values():
            if member.server is not None:
                await member.server.broker.replicas.settled()
        return topic_id

    @property
    def bootstrap_servers(self) -> list[str]:
        servers = [member.server for member in self.members.values() if member.server is not None]
        return [f"{each.host}:{each.port}" for server in servers for each in server.endpoints]

    def state(self, topic: str = "t", index: int = 0) -> PartitionRecord:
        return self.metadata.image.topics[topic].leadership[index]

    async def expel(self, leader: int, follower: int, *, topic: str = "t", index: int = 0) -> None:
        """Have the time of a follower that lacks a record be over, and wait until it has left the ISR.

        With a replica.lag.time.max.ms that a test can wait for, a busy machine would expel others, too.
        """
        partition = self[leader].partition(topic, index)
        leadership = partition.leadership
        assert leadership is not None
        progress = leadership.machine.followers[follower]
        await until(lambda: progress.end_offset < partition.log.log_end_offset)
        progress.beat, progress.caught_up_ms, progress.fetched_ms = None, LONG_AGO_MS, LONG_AGO_MS
        leadership.shrink()
        await until(lambda: follower not in self.state(topic, index).isr)

    async def elect(self, leader: int, isr: tuple[int, ...], *, topic: str = "t", index: int = 0) -> None:
        """Write another leader into the state, as the controller does."""
        state = self.state(topic, index)
        await self.commit(replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr))

    async def produce(
        self, leader: int, *values: bytes, acks: int = -1, timeout_ms: int = 60_000, topic: str = "t", index: int = 0
    ) -> ProduceResponsePartition:
        return await self.send(leader, make_batch(*values), acks, timeout_ms, topic=topic, index=index)

    async def send(
        self,
        leader: int,
        batch: bytearray,
        acks: int = -1,
        timeout_ms: int = 60_000,
        *,
        topic: str = "t",
        index: int = 0,
    ) -> ProduceResponsePartition:
        connection = await self[leader].ask()
        try:
            data = ProduceRequestPartition(index=index, records=bytes(batch))
            request = ProduceRequest(
                acks=acks,
                timeout_ms=timeout_ms,
                topic_data=[ProduceRequestTopic(name=topic, partition_data=[data])],
            )
            response = await connection.request(request, ProduceResponse, version_max=9)
            return response.responses[0].partition_responses[0]
        finally:
            await connection.close()

    async def fetch(
        self, broker_id: int, offset: int = 0, *, topic: str = "t", index: int = 0, rack: str = "", epoch: int = -1
    ) -> FetchResponsePartition:
        connection = await self[broker_id].ask()
        try:
            wanted = FetchRequestPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=2**20, current_leader_epoch=epoch
            )
            request = FetchRequest(topics=[FetchRequestTopic(topic=topic, partitions=[wanted])], rack_id=rack)
            response = await connection.request(request, FetchResponse, version_max=12)
            return response.responses[0].partitions[0]
        finally:
            await connection.close()

    async def values(self, broker_id: int, offset: int = 0, *, topic: str = "t", index: int = 0) -> list[bytes | None]:
        """What a consumer reads there."""
        answer = await self.fetch(broker_id, offset, topic=topic, index=index)
        assert answer.error_code == ErrorCode.NONE
        return [record.value for record in records_of(answer.records)]  # type: ignore[arg-type]


@contextmanager
def unsure_of_its_session(member: Member) -> Iterator[None]:
    """Meanwhile another may have been elected, for all that the broker knows."""
    store = member.store
    assert store is not None
    timeout_ms, store._session_timeout_ms = store._session_timeout_ms, 0
    store.stall()
    try:
        yield
    finally:
        store.resume()
        store._session_timeout_ms = timeout_ms


def stored(member: Member, topic: str = "t", index: int = 0) -> bytes:
    """Every byte of a log."""
    log = member.partition(topic, index).log
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = bytes(log.read(offset, 2**20, log.log_end_offset, True))
        found += data
        offset = max(header.next_offset for _, header in read_batches(data))
    return found


@asynccontextmanager
async def running(count: int, *, is_governed: bool = False, **settings: str) -> AsyncIterator[Cluster]:
    """A cluster from start to stop; one that is governed has a controller of its own."""
    cluster = Cluster(count, **settings)
    await (cluster.metadata.load() if is_governed else cluster.begin())
    try:
        for member in cluster.members.values():
            await member.start()
        yield cluster
    finally:
        for member in cluster.members.values():
            if member.server is not None:
                await member.server.stop()
