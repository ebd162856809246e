"""Scenes of transactions in which the one thing goes wrong that a safeguard is there for."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.unit.sample import make_batch

from tailrace.client.cluster import Cluster
from tailrace.client.transaction.coordinator import PRODUCE_VERSION_MAX_V1, TransactionCoordinator
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tailrace.sim.fault import Faults
from tailrace.sim.simulation import Outcome
from tailrace.sim.transaction.producer import RecordedProducer
from tailrace.sim.transaction.simulation import TransactionSimulation
from tailrace.sim.transaction.workload import TARGET, TransactionWorkload
from tailrace.sim.workload import Workload, partition_name
from tailrace.sim.world import Program
from tailrace.storage.memory_fs import Crash

ID = "late"
_AT_ONCE_S = 0.001


class LateProducer(TransactionWorkload):
    """An old producer aborts a transaction while a batch of it is still on its way."""

    def programs(self) -> dict[str, Program]:
        others = super().programs()
        return {"giver-1": others["giver-1"], "auditor-1": others["auditor-1"], "late-1": self._run}

    async def _run(self, name: str) -> None:
        async with RecordedProducer(self.world, name, ID, self.shape.producer) as producer:
            await producer.init()
            transaction = await producer.begin()
            await producer.send(TARGET, 0, "one")
            await asyncio.sleep(1)
            place = partition_name((TARGET, 0))
            late = self.world.recorder.invoke(name, "send", partition=place, value="late", transaction=transaction)
            identity = producer.identity
            await producer.abort()
            await asyncio.sleep(1)
            batch = make_batch(b"late", producer=(*identity, 1), is_transactional=True)
            async with Cluster(self.world.bootstrap) as cluster:
                connection = await cluster.connection(await cluster.leader_id(TARGET, 0))
                request = _request(bytes(batch))
                await connection.request(request, ProduceResponse, version_max=PRODUCE_VERSION_MAX_V1)
            late.unknown("nobody waits for the answer any more")
        while not self.world.is_ending:
            await asyncio.sleep(1)


def _request(batch: bytes) -> ProduceRequest:
    topic = ProduceRequestTopic(name=TARGET, partition_data=[ProduceRequestPartition(index=0, records=batch)])
    return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=5_000, topic_data=[topic])


class LateProduce(TransactionSimulation):
    """One broker, and the late batch."""

    def choose_workloads(self) -> list[Workload]:
        return [LateProducer(self.world, self.shape, producer={}, transaction_timeout_ms=60_000)]

    def make_faults(self) -> Faults:
        return Faults(self.world, loses_power=False, every_s=1e9)

    def run(self) -> Outcome:
        with _first_generation():
            return super().run()


@contextmanager
def _first_generation() -> Iterator[None]:
    async def is_v2(_coordinator: TransactionCoordinator) -> bool:
        return False

    with patch.object(TransactionCoordinator, "is_v2", is_v2):
        yield


_PATIENCE_S = 30.0


class CrashBeforeMarkers(Faults):
    """Kills the broker each time that it has written down how a transaction ends, and is about to carry it out."""

    _CRASHES = 3

    async def run(self, for_s: float) -> None:
        await asyncio.sleep(1)
        for _ in range(self._CRASHES):
            await self._crash()
            await asyncio.sleep(for_s / self._CRASHES)
        self.heal()

    async def _crash(self) -> None:
        (broker,) = self._world.brokers
        decided_s = -1.0

        def decide() -> bool | None:
            return False if self._world.loop.time() - decided_s < _AT_ONCE_S else None

        broker.kill_in_call(1, decide)
        kill = broker.fs.hook
        assert kill is not None

        def hook(count: int, operation: str, path: str) -> OSError | Crash | None:
            nonlocal decided_s
            if "__transaction_state" in path:
                decided_s = self._world.loop.time()
            return kill(count, operation, path) if f"/{TARGET}-" in path else None

        broker.fs.hook = hook
        ends_s = self._world.loop.time() + _PATIENCE_S
        while broker.is_up and self._world.loop.time() < ends_s:
            await asyncio.sleep(0.01)
        broker.fs.hook = None
        if not broker.is_up:  # else no transaction ends any more, because an earlier one hangs
            broker.start()


class InterruptedEnds(TransactionSimulation):
    """One broker, which dies between deciding and doing."""

    def make_faults(self) -> Faults:
        return CrashBeforeMarkers(self.world, loses_power=False, every_s=1e9)
