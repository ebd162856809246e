"""One seed of a cluster: three to five brokers, their metadata on simulated servers, and everything that goes wrong."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from runnel.coordination.store import MetadataStore
from runnel.server.dispatch import Dispatcher
from runnel.sim.broker import SimBroker
from runnel.sim.clock import SimClock
from runnel.sim.cluster_fault import ClusterFaults
from runnel.sim.fault import Faults
from runnel.sim.invariant import Invariants
from runnel.sim.simulation import Outcome, Simulation
from runnel.sim.store import SimStore
from runnel.sim.workload import Shape
from runnel.sim.zookeeper import SimZookeeper

_SESSION_TIMEOUT_MS = 6_000
_QUIET_S = 120.0
_LOOK_S = 0.5


class ClusterSimulation(Simulation):
    """Several brokers and their clients."""

    def __init__(self, seed: int, *, for_s: float = 60.0) -> None:
        super().__init__(seed, for_s=for_s)
        self.broker_count = self.random.choice([3, 3, 4, 5])
        self.syncs = self.random.random() < 0.3
        self.invariants = Invariants()

    def choose_shape(self) -> Shape:
        configs = (("min.insync.replicas", "2"),)
        return replace(super().choose_shape(), replication_factor=3, topic_configs=configs)

    def broker_options(self) -> dict[str, str]:
        options = super().broker_options()
        options.pop("log.flush.interval.messages", None)
        if self.syncs:
            options["log.flush.interval.messages"] = "1"
        return {
            **options,
            "offsets.topic.replication.factor": "3",
            "min.insync.replicas": "2",
            "replica.lag.time.max.ms": "4000",
            "leader.imbalance.check.interval.seconds": str(self.random.choice([1, 5, 300])),
            "leader.imbalance.per.broker.percentage": "0",
            "replica.high.watermark.checkpoint.interval.ms": "2000",
            # So little that who was away for a moment comes back in many fetches, and asks ahead.
            "replica.fetch.max.bytes": Random(f"fetch {self.world.seed}").choice(["300", "3000", "1048576"]),
        }

    def make_brokers(self) -> None:
        world, options = self.world, self.broker_options()
        world.loop.network.slow_share = self.random.choice([0.01, 0.05, 0.3])
        self.zookeeper = SimZookeeper(world.loop, _SESSION_TIMEOUT_MS)

        async def open_store(broker: SimBroker) -> MetadataStore:
            return await SimStore.open(world.loop, self.zookeeper, broker.clock, broker.host)

        for broker_id in range(1, self.broker_count + 1):
            clock = SimClock(world.loop, skew_ms=self.random.randint(-2_000, 2_000))
            dice = Random(f"disk {broker_id} {world.seed}")
            world.brokers.append(SimBroker(world.loop, broker_id, options, open_store, clock, dice))
            self.invariants.add(world.brokers[-1])
        self.zookeeper.on_commit = self.invariants.committed
        world.loop.after_step = self.invariants.after_step

    def make_faults(self) -> Faults:
        every_s = 1e9 if self.is_calm else self.random.choice([2.0, 5.0])
        return ClusterFaults(self.world, self.zookeeper, may_lose_power=self._may_lose_power, every_s=every_s)

    def _may_lose_power(self, broker_id: int) -> bool:
        """What is not synced is safe while enough others have it, who lost nothing themselves since they had it."""
        running = {broker.broker_id for broker in self.world.brokers if broker.is_admitted} - {broker_id}
        return self.syncs or all(len(running & set(isr)) >= 2 for isr in self.invariants.isrs())

    async def end(self) -> None:
        """When all has been read, everybody is in sync again, and all have the same."""
        ends_s = self.world.loop.time() + _QUIET_S
        while not self.invariants.is_whole():
            if self.world.loop.time() > ends_s:
                self.problems.append(f"{_QUIET_S:g} s after everything was healed not all are in sync")
                return
            await asyncio.sleep(_LOOK_S)
        self.invariants.check_same()

    def run(self) -> Outcome:
        with self._listening_to_answers(), self.invariants.noticing():
            return super().run()

    @contextmanager
    def _listening_to_answers(self) -> Iterator[None]:
        answer = Dispatcher._answer

        async def listen(dispatcher: Any, served: Any, context: Any, request: Any) -> Any:
            response = await answer(dispatcher, served, context, request)
            self.invariants.answered(context.broker.broker_id, request, response)
            return response

        with patch.object(Dispatcher, "_answer", listen):
            yield
