"""Scenes of a cluster in which the one thing goes wrong that a safeguard is there for."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

from tailrace.coordination.layout import node_of, partition_path, record_of
from tailrace.coordination.store import Change, Put
from tailrace.machines.controller.record import PartitionRecord
from tailrace.runtime.partition import Partition
from tailrace.sim.broker import SimBroker
from tailrace.sim.cluster import ClusterSimulation
from tailrace.sim.fault import Faults
from tailrace.sim.late_write import LateWrites
from tailrace.sim.record_workload import Shape

_LOOKS_MAX = 100_000
_TRIES = 5
PATH = partition_path("views", 0)


class Scene(ClusterSimulation):
    """Three brokers, one partition, and producers that send all the time."""

    session_timeout_ms = 6_000
    care_share = 0.0
    unclean_share = 0.0
    may_have_groups = False
    old_share = 0.0

    def __init__(self, seed: int, script: "type[Script]") -> None:
        super().__init__(seed)
        self.broker_count = 3
        self.admin_every_s = self.config_every_s = 0.0
        self._script = script

    def choose_shape(self) -> Shape:
        shape = super().choose_shape()
        producer = {**shape.producer, "max.in.flight.requests.per.connection": 5}
        return replace(shape, partition_count=1, pause_s=0.05, pipeline_max=20, producer=producer, producer_count=2)

    def broker_options(self) -> dict[str, str]:
        slow = {"leader.imbalance.check.interval.seconds": "300", "replica.lag.time.max.ms": "4000"}
        return {**super().broker_options(), **slow}

    def make_faults(self) -> Faults:
        return self._script(self)


class Script(Faults):
    """Says what happens, step by step, to a leader and its two followers."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.world, loses_power=False, every_s=1.0)
        self.zookeeper = scene.zookeeper
        self.network = scene.world.loop.network

    async def run(self, for_s: float) -> None:
        await asyncio.sleep(3)
        state = self.state
        leader, one, other = (self._find(broker_id) for broker_id in (state.leader, *self._followers()))
        await self.play(leader, one, other)
        await asyncio.sleep(3)
        self.heal()

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        raise NotImplementedError

    async def until(self, condition: Callable[[], bool], *, look_s: float = 0.000_05) -> None:
        """Go on in the moment in which something becomes true, before anything that takes time."""
        for _ in range(_LOOKS_MAX):
            if condition():
                return
            await asyncio.sleep(look_s)
        raise TimeoutError("what was waited for has not come")

    @property
    def state(self) -> PartitionRecord:
        record = record_of(Change(PATH, self.zookeeper.tree.nodes[PATH]))
        assert isinstance(record, PartitionRecord)
        return record

    def elect(self, broker: SimBroker) -> None:
        """Decide as a controller may for any broker that is in sync."""
        state = self.state
        assert broker.broker_id in state.isr
        _, value = node_of(replace(state, leader=broker.broker_id, leader_epoch=state.leader_epoch + 1))
        self.zookeeper.commit_as_world([Put(PATH, value, self.zookeeper.tree.nodes[PATH].version)])

    def replica(self, broker: SimBroker) -> Partition:
        return next(partition for partition in broker.replicas() if partition.name == "views-0")

    def _followers(self) -> list[int]:
        return [broker_id for broker_id in self.state.isr if broker_id != self.state.leader]

    def _find(self, broker_id: int) -> SimBroker:
        return next(broker for broker in self._world.brokers if broker.broker_id == broker_id)


class LateIsrChange(Script):
    """A leader asks for another ISR, and its request is late: another leader has been elected before it arrives."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        one.pause()
        await asyncio.sleep(3.9)
        await self.until(lambda: self._asks(leader))
        self.elect(other)

    def _asks(self, leader: SimBroker) -> bool:
        leadership = self.replica(leader).leadership
        return leadership is not None and leadership.machine.pending is not None


class TwoQuickElections(Script):
    """KIP-101: a follower that has a record and does not know yet that it is committed becomes leader."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        await self.until(lambda: self.replica(one).high_watermark < self.replica(leader).high_watermark)
        self.network.cut(other.host, one.host)
        self.elect(other)
        await self.until(lambda: self.replica(one).leader_epoch == self.state.leader_epoch)
        self.elect(one)


class Fork(Script):
    """A leader that is cut off writes what nobody else has, and follows its successor afterwards."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for follower in (one, other):
            self.network.cut(leader.host, follower.host)
            self.network.cut(follower.host, leader.host)
        await self.until(lambda: self._end(leader) > max(self._end(one), self._end(other)))
        self.elect(one)
        await self.until(lambda: self._end(one) > self._end(leader), look_s=0.001)
        self.network.mend_all()

    def _end(self, broker: SimBroker) -> int:
        return self.replica(broker).log.log_end_offset


class FullDisks(Script):
    """Followers get what they cannot write, and one of them is elected."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for follower in (one, other):
            follower.fs.capacity_bytes = 0
        await asyncio.sleep(0.5)
        self.elect(one)
        for follower in (one, other):
            follower.fs.capacity_bytes = None


class PausedLeader(Script):
    """A leader stops between an append and its acknowledgement, for so long that another is elected, and goes on."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for _ in range(5):
            replica = self.replica(leader)
            await self.until(lambda replica=replica: replica.high_watermark < replica.log.log_end_offset)  # type: ignore[misc]
            leader.pause()
            await asyncio.sleep(1.2 * Scene.session_timeout_ms / 1000)
            leader.resume()
            await asyncio.sleep(2)
            leader = self._find(self.state.leader)


class LateWrite(Script):
    """A leader writes that a follower lags, and the topic is made again before that arrives."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for follower in (one, other):
            self.network.cut(follower.host, leader.host)
        writes, random = LateWrites(self._world, self.zookeeper, "views"), Random(self._world.seed)
        for _ in range(_TRIES):
            if await writes.provoke(random):
                return
        raise TimeoutError("the leader has not written anything")


class Plain(Script):
    """Nothing goes wrong."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        """Nothing."""
