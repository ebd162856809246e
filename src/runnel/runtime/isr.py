"""Carrying changes of ISRs to the metadata store, and looking for followers that do not keep up.

A leader proposes and goes on with the maximal ISR; see `machines.replica.leader`. The write is conditional on the
version of the node that the image was built from, so a leader that was deposed cannot change anything.
Whatever comes of it, the image tells. Only when the store is back after its connection broke, and the image says
nothing new, it is known that the write never happened.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from runnel.base.limits import ISR_CHANGES_AT_ONCE_MAX
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import BadVersionError, NoNodeError, Operation, OutcomeUnknown
from runnel.machines.controller.election import with_isr
from runnel.machines.controller.record import BrokerAdmitted, PartitionRecord, Record
from runnel.runtime.partition import Partition
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")


class IsrKeeper:
    """The ISRs of the partitions that this broker leads."""

    def __init__(
        self, metadata: ClusterMetadata, lag_max_ms: int, partitions: Callable[[], Iterable[Partition]]
    ) -> None:
        self._metadata = metadata
        self._lag_max_ms = lag_max_ms
        self._partitions = partitions
        self._turns = asyncio.Semaphore(ISR_CHANGES_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker lives in that epoch of its, was admitted and is not about to stop."""
        broker = self._metadata.image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.epoch == broker_epoch
            and not broker.is_stopping
            and self._metadata.image.is_live(broker_id)
        )

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Write an ISR of a partition that this broker leads."""
        task = asyncio.get_running_loop().create_task(self._change(partition, partition.leader_epoch, isr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Look for followers that do not keep up, for ever."""
        while True:
            await asyncio.sleep(self._lag_max_ms / 2000)
            self.shrink()
            self.grow()

    def shrink(self) -> None:
        """Propose ISRs without those who do not keep up."""
        for partition in self._partitions():
            if (leadership := partition.leadership) is not None and not leadership.is_complete:
                leadership.shrink()

    def grow(self) -> None:
        """Propose ISRs with those who may join by now."""
        for partition in self._partitions():
            if (leadership := partition.leadership) is not None and not leadership.is_complete:
                leadership.grow()

    def on_records(self, records: Sequence[Record]) -> None:
        """Who is admitted may be in sync already."""
        if any(isinstance(record, BrokerAdmitted) for record in records):
            self.grow()

    async def stop(self) -> None:
        """Give up what is on its way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _change(self, partition: Partition, leader_epoch: int, isr: tuple[int, ...]) -> None:
        async with self._turns:
            record = self._record(partition, leader_epoch, isr)
            if record is None:
                return
            try:
                await self._metadata.commit([record], self._guards(partition, isr))
                log.info("%s: the ISR is %s", partition.name, list(isr))
            except (BadVersionError, NoNodeError):
                log.info("%s: the ISR could not become %s, because its state has changed", partition.name, list(isr))
                self._give_up(partition, isr)
            except OutcomeUnknown:
                # Once the store is connected watchers have been told: what is pending still has not happened.
                await self._metadata.store.wait_connected()
                self._give_up(partition, isr)
            except StorageError as error:
                log.error("%s: the ISR could not be written: %s", partition.name, error)
                self._give_up(partition, isr)
                return
        # Others may have caught up in the meantime. If they have no news, nobody looks at them soon.
        if partition.leadership is not None:
            partition.leadership.grow()

    def _record(self, partition: Partition, leader_epoch: int, isr: tuple[int, ...]) -> PartitionRecord | None:
        """What to write; None if the image has changed since it was proposed."""
        topic = self._metadata.image.topics.get(partition.topic)
        state = None if topic is None else topic.leadership.get(partition.index)
        leadership = partition.leadership
        if (
            topic is None
            or state is None
            or state.leader_epoch != leader_epoch
            or leadership is None
            or leadership.machine.pending is not isr
        ):
            return None
        progress = leadership.machine.followers
        for joining in set(isr) - set(state.isr):
            if joining not in progress or not self.is_eligible(joining, progress[joining].broker_epoch):
                self._give_up(partition, isr)
                return None
        replicas = topic.assignment[partition.index]
        return with_isr(state, isr, replicas, partition.config.min_insync_replicas)

    def _guards(self, partition: Partition, isr: tuple[int, ...]) -> list[Operation]:
        """What keeps a broker out that has crashed since it caught up: its admission is revoked, or another."""
        topic = self._metadata.image.topics[partition.topic]
        there = topic.leadership[partition.index].isr
        return [self._metadata.admission_guard(broker_id) for broker_id in isr if broker_id not in there]

    def _give_up(self, partition: Partition, isr: tuple[int, ...]) -> None:
        leadership = partition.leadership
        # The same tuple, not an equal one: another change may have begun since.
        if leadership is not None and leadership.machine.pending is isr:
            leadership.machine.give_up()
            leadership.settle()
