"""The transactional workload: tellers, copiers and their rivals, and the readers of their data."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tailrace.client.setting import SettingValue
from tailrace.sim.record_workload import RecordWorkload, SendingClient, Shape, make_topic
from tailrace.sim.transaction.client import Copier, Teller, TransactionShape
from tailrace.sim.transaction.reader import Auditor, Looker, drain_committed
from tailrace.sim.workload import keep_trying
from tailrace.sim.world import Program, World

SOURCE, TARGET = "requests", "orders"


class TransactionWorkload:
    """All transactional clients of one seed, on two topics."""

    def __init__(
        self, world: World, shape: Shape, *, producer: Mapping[str, SettingValue], transaction_timeout_ms: int
    ) -> None:
        """`shape` has the parameters of clients and topics; `producer` has further configs of producers."""
        self.world = world
        self._source = replace(shape, topic=SOURCE)
        self._target = replace(shape, topic=TARGET)
        self.shape = TransactionShape(
            source=SOURCE,
            target=TARGET,
            partition_count=shape.partition_count,
            replication_factor=shape.replication_factor,
            producer={**shape.producer, **producer},
            member={**shape.member, "isolation.level": "read_committed"},
            consumer={**shape.consumer, "isolation.level": "read_committed"},
            pause_s=shape.pause_s,
            transaction_timeout_ms=transaction_timeout_ms,
        )

    @property
    def topics(self) -> tuple[Shape, Shape]:
        """The source and the target."""
        return self._source, self._target

    async def prepare(self) -> None:
        await asyncio.gather(*(make_topic(self.world, shape) for shape in self.topics))

    def programs(self) -> dict[str, Program]:
        world, shape = self.world, self.shape
        return {
            "giver-1": SendingClient(RecordWorkload(world, self._source)).run,
            "teller-1": Teller(world, shape, "tellers-1").run,
            "teller-2": Teller(world, shape, "tellers-1").run,
            "teller-3": Teller(world, shape, "tellers-2").run,
            "copier-1": Copier(world, shape, "copiers-1").run,
            "copier-2": Copier(world, shape, "copiers-1").run,
            "copier-3": Copier(world, shape, "copiers-2").run,
            "auditor-1": Auditor(world, shape).run,
            "auditor-2": Auditor(world, shape, sees_all=True).run,
            "looker-1": Looker(world, shape).run,
        }

    async def drain(self) -> None:
        for topic in (SOURCE, TARGET):
            await keep_trying(self.world, f"drain-{topic}", partial(drain_committed, self.world, topic))
