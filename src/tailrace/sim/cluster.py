"""The simulation of a cluster: three to five brokers, simulated metadata servers, clients and faults."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from tailrace.config.unit import DAY_MS
from tailrace.coordination.store import Change, MetadataStore
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.lease import Lease
from tailrace.server.dispatch import Dispatcher
from tailrace.sim.admin_workload import AdminWorkload
from tailrace.sim.broker import SimBroker
from tailrace.sim.care.shape import choose_care
from tailrace.sim.care.watch import watching_care
from tailrace.sim.care.workload import CareWorkload
from tailrace.sim.clock import SimClock
from tailrace.sim.cluster_fault import ClusterFaults
from tailrace.sim.config_workload import ConfigWorkload
from tailrace.sim.fault import Faults
from tailrace.sim.group_workload import (
    HEARTBEAT_MS,
    LATE_TOPIC,
    GroupWorkload,
    choose_groups,
    has_big_groups,
    plain_group,
    session_ms,
    with_automatic_members,
)
from tailrace.sim.history import History
from tailrace.sim.incarnation import Incarnations
from tailrace.sim.invariant import Invariants
from tailrace.sim.late_write import LateWrites
from tailrace.sim.process import PROCESS
from tailrace.sim.record_workload import RecordWorkload, Shape
from tailrace.sim.refusal import counting_restarts, find_refusals
from tailrace.sim.remade_topic_workload import TOPIC as REMADE
from tailrace.sim.remade_topic_workload import RemadeTopicWorkload
from tailrace.sim.simulation import Outcome, Settings, Simulation
from tailrace.sim.store import SimStore
from tailrace.sim.workload import Workload
from tailrace.sim.zookeeper import SimZookeeper

_GROUPS_S_MIN = 6.0  # a group needs a while to form
_QUIET_S = 120.0
_LOOK_S = 0.2
_REMADE_SHARE = 0.3
_OLD_MS = 2 * DAY_MS  # longer than brokers remember a producer that sends nothing
_DRIFTS = (1.0, 1.0, 0.99, 0.999, 1.001, 1.01)


class ClusterSimulation(Simulation):
    """Several brokers and their clients.

    All timeouts are short: the cost of a seed depends on its events and its virtual time, and the purpose is to find
    bad orders of events.
    """

    settle_s = 0.5
    unlimited_share = 0.2  # of the seeds with an administrator
    limits_every_s = (0.2, 0.6)
    session_timeout_ms = 1_500
    care_share = 0.5  # of the seeds, in which logs are cleaned all the time
    unclean_share = 0.05
    """The share of seeds that allow unclean elections. They promise no more than that all replicas agree at the end."""
    may_have_groups = True
    old_share = 0.2  # of the seeds, in which producers send old records

    def __init__(self, seed: int, *, for_s: float | None = None) -> None:
        super().__init__(seed, for_s=for_s)
        self.broker_count = self.random.choice([3, 3, 3, 4, 5])
        self.syncs = self.random.random() < 0.3
        self.admin_every_s = self.random.choice([0.0, 0.5, 1.0])  # 0: no administrator
        self.care = choose_care(seed, self.care_share)
        self.config_every_s = Random(f"configs {seed}").choice([0.0, 0.2, 0.6])  # 0: configs stay
        unclean_topics = {self.shape.topic, LATE_TOPIC, REMADE} if self.is_unclean else set()
        compacted_topics = self.care.compacted_topics if self.care is not None else ()
        self.invariants = Invariants(self.world.count, unclean_topics=unclean_topics, compacted_topics=compacted_topics)
        self.incarnations = Incarnations(REMADE)

    @property
    def is_about_groups(self) -> bool:
        return self.may_have_groups and has_big_groups(self.world.seed)

    def choose_length(self) -> float:
        chosen_s = self.random.choice([2.0, 3.0, 4.0, 8.0])
        return max(chosen_s, _GROUPS_S_MIN) if self.is_about_groups else chosen_s

    def choose_shape(self) -> Shape:
        shape, random = super().choose_shape(), self.random
        self.is_unclean = Random(f"unclean {self.world.seed}").random() < self.unclean_share
        client: Settings = {"request.timeout.ms": random.choice([500, 1_000, 3_000]), "metadata.max.age.ms": 5_000}
        reading: Settings = {**client, "fetch.max.wait.ms": random.choice([100, 500])}
        session: Settings = (
            {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 400}
            if shape.member["group.protocol"] == "classic"
            else {}
        )
        return replace(
            shape,
            partition_count=shape.partition_count + 2 if self.is_about_groups else shape.partition_count,
            replication_factor=3,
            topic_configs=(
                ("min.insync.replicas", "2"),
                ("unclean.leader.election.enable", str(self.is_unclean).lower()),
            ),
            producer={**shape.producer, **client, "delivery.timeout.ms": random.choice([10_000, 30_000])},
            consumer={**shape.consumer, **reading},
            member={**shape.member, **reading, **session},
            pause_s=random.choice([0.03, 0.07, 0.15]),
            pipeline_max=random.choice([3, 10, 50]),
            producer_count=random.choice([1, 2]),
            member_count=random.choice([0, 1, 2]),
            consumer_count=random.choice([0, 1]),
            record_age_ms=_OLD_MS if Random(f"old records {self.world.seed}").random() < self.old_share else 0,
        )

    def choose_workloads(self) -> list[Workload]:
        records = RecordWorkload(self.world, self.shape)
        groups = choose_groups(self.world.seed, self.shape) if self.is_about_groups else plain_group(self.shape)
        groups = with_automatic_members(self.world.seed, groups)
        chosen: list[Workload] = [records, GroupWorkload(self.world, groups)]
        if self.admin_every_s:
            chosen.append(AdminWorkload(self.world, records, every_s=self.admin_every_s))
            chosen += [*self.limiters(self.shape), *self.remakers()]
        if self.config_every_s:
            chosen.append(ConfigWorkload(self.world, every_s=self.config_every_s))
        if self.care is not None:
            chosen.append(CareWorkload(self.world, self.care, self.shape.producer))
        return chosen

    def report_commit(self, problem: str) -> None:
        if not self.is_unclean:  # else a member may have to read again what an election has lost
            super().report_commit(problem)

    def judge(self, history: History) -> list[str]:
        return [] if self.is_unclean else super().judge(history)

    def limiters(self, *shapes: Shape) -> list[Workload]:
        return super().limiters(*shapes) if self.admin_every_s else []

    def remakers(self) -> list[Workload]:
        """Return the workload that deletes a topic and creates it again, in some seeds."""
        random = Random(f"remaker {self.world.seed}")
        if random.random() >= _REMADE_SHARE:
            return []
        late_writes, every_s = LateWrites(self.world, self.zookeeper, REMADE), random.choice([0.3, 1.0])
        return [RemadeTopicWorkload(self.world, self.shape, self.incarnations, late_writes, every_s=every_s)]

    def broker_options(self) -> dict[str, str]:
        options = super().broker_options()
        options.pop("log.flush.interval.messages", None)
        if self.syncs:
            options["log.flush.interval.messages"] = "1"
        if self.shape.record_age_ms:
            options["producer.id.expiration.check.interval.ms"] = "200"
        return {
            **options,
            "offsets.topic.replication.factor": "3",
            "min.insync.replicas": "2",
            "replica.lag.time.max.ms": "1000",
            "leader.imbalance.check.interval.seconds": str(self.random.choice([1, 3, 300])),
            "leader.imbalance.per.broker.percentage": "0",
            # So small that a follower needs many fetches to catch up, and fetches ahead.
            "replica.fetch.max.bytes": Random(f"fetch {self.world.seed}").choice(["300", "3000", "1048576"]),
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "log.flush.offset.checkpoint.interval.ms": self.checkpoint_interval_ms,
            "controlled.shutdown.retry.backoff.ms": "500",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": str(session_ms(self.world.seed) if self.is_about_groups else 2_000),
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS if self.is_about_groups else 400),
        }

    @property
    def checkpoint_interval_ms(self) -> str:
        """The time between checkpoints; if it is long, brokers write log starts only because of DeleteRecords."""
        is_often = self.admin_every_s and Random(f"checkpoint {self.world.seed}").random() < 0.5
        return "50" if is_often else "60000"

    def make_brokers(self) -> None:
        world, options = self.world, self.broker_options()
        world.loop.network.slow_share = self.random.choice([0.01, 0.05, 0.3])
        self.zookeeper = SimZookeeper(world.loop, self.session_timeout_ms)

        async def open_store(broker: SimBroker) -> MetadataStore:
            return await SimStore.open(world.loop, self.zookeeper, broker.clock, broker.host)

        for broker_id in range(1, self.broker_count + 1):
            drift = self.random.choice(_DRIFTS)
            clock = SimClock(world.loop, skew_ms=self.random.randint(-2_000, 2_000), rate=drift)
            dice = Random(f"disk {broker_id} {world.seed}")
            own = options if self.care is None else {**options, **self.care.broker_options(broker_id)}
            world.brokers.append(SimBroker(world.loop, broker_id, own, open_store, clock, dice))
            self.invariants.add(world.brokers[-1])
        self.zookeeper.on_commit = self.committed
        world.loop.after_step = self.invariants.after_step

    def committed(self, changes: Sequence[Change]) -> None:
        """Take in a change of the metadata."""
        self.invariants.committed(changes)
        self.incarnations.committed(changes)

    def make_faults(self) -> Faults:
        every_s = 1e9 if self.is_calm else self.random.choice([0.2, 0.4, 0.8])
        faults = ClusterFaults(
            self.world,
            self.zookeeper,
            isrs=self.invariants.isrs,
            syncs=self.syncs,
            every_s=every_s,
            is_unclean=self.is_unclean,
        )
        if not self.is_calm:
            self.world.black_out = faults.black_out
        return faults

    async def end(self) -> None:
        """Wait until all replicas are in sync, and check that they are identical."""
        ends_s = self.world.loop.time() + _QUIET_S
        while unfinished := self.invariants.find_unfinished():
            if self.world.loop.time() > ends_s:
                text = f"not all replicas are in sync {_QUIET_S:g} s after all faults were healed"
                self.problems.append(f"{text}: {'; '.join(unfinished)}")
                return
            await asyncio.sleep(_LOOK_S)
        self.invariants.check_same()

    def run(self) -> Outcome:
        with (
            self._listening_to_answers(),
            self._looking_at_leases(),
            self.invariants.noticing(),
            counting_restarts(self.world.count),
            watching_care(self.world),
        ):
            return super().run()

    @contextmanager
    def _listening_to_answers(self) -> Iterator[None]:
        answer = Dispatcher._answer

        async def listen(dispatcher: Any, served: Any, context: Any, request: Any) -> Any:
            response = await answer(dispatcher, served, context, request)
            if PROCESS.get() is not None:
                self._refused(context.broker.broker_id, find_refusals(request, response))
                self.incarnations.answered(self.invariants.brokers[context.broker.broker_id], request, response)
                self.invariants.answered(context.broker.broker_id, request, response)
            return response

        with patch.object(Dispatcher, "_answer", listen):
            yield

    def _refused(self, broker_id: int, errors: Sequence[ErrorCode]) -> None:
        for error in errors:
            self.world.count(f"refused: {error.name}")
        self.world.stranding.refused(self.invariants.brokers[broker_id].host, errors)

    @contextmanager
    def _looking_at_leases(self) -> Iterator[None]:
        is_held: Any = Lease.is_held

        def look(lease: Lease) -> bool:
            found: bool = is_held.fget(lease)
            process = PROCESS.get()
            if found and process is not None and self.zookeeper.has_fallen_silent(process.name):
                self.world.loop.failures.append(f"{process.name} holds its lease although its session has expired")
            return found

        with patch.object(Lease, "is_held", property(look)):
            yield


class GroupSimulation(ClusterSimulation):
    """The simulation of a cluster with groups of three to six members in every seed."""

    @property
    def is_about_groups(self) -> bool:
        return True
