"""Carrying changes of ISRs to the metadata store, and looking for followers that do not keep up.

A leader proposes and goes on with the maximal ISR; see `machines.replica.leader`. The write is conditional on the
version of the node that the image was built from, so a leader that was deposed cannot change anything.
Whatever comes of it, the image tells. Only when the store is back after its connection broke, and the image says
nothing new, it is known that the write never happened.

A leader whose disk has failed resigns in the same way: it writes a state without a leader and without itself in the
ISR, and the controller elects another. If nobody else is in sync it stays, and refuses what it is asked.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from runnel.base.limits import DECISION_ATTEMPTS_MAX, ISR_CHANGES_AT_ONCE_MAX
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import BadVersionError, NoNodeError, Operation, OutcomeUnknown
from runnel.machines.controller.election import with_isr
from runnel.machines.controller.record import NO_BROKER, BrokerAdmitted, PartitionRecord, Record
from runnel.runtime.leadership import Leadership
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
        self._watched: dict[Partition, None] = {}
        self._has_failed_disk = False
        self._resigning: set[Partition] = set()

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker lives in that epoch of its, was admitted and is not about to stop."""
        broker = self._metadata.image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.epoch == broker_epoch
            and not broker.is_stopping
            and self._metadata.image.is_live(broker_id)
        )

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker lives and was admitted."""
        return self._metadata.image.is_live(broker_id)

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Write an ISR of a partition that this broker leads."""
        self._spawn(self._change(partition, partition.leader_epoch, isr))

    def _spawn(self, change: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Look for followers that do not keep up, for ever."""
        while True:
            await asyncio.sleep(self._lag_max_ms / 2000)
            if self._has_failed_disk:
                self.resign()
            self.shrink()
            self.grow()

    def shrink(self) -> None:
        """Propose ISRs without those who do not keep up."""
        for leadership in self._incomplete():
            leadership.shrink()

    def grow(self) -> None:
        """Propose ISRs with those who may join by now."""
        for leadership in self._incomplete():
            leadership.grow()

    def watch(self, partition: Partition) -> None:
        """Look at the ISR of a partition now and then, until all followers are in sync and have everything."""
        self._watched[partition] = None

    def _incomplete(self) -> Iterator[Leadership]:
        for partition in tuple(self._watched):
            leadership = partition.leadership
            if leadership is None or leadership.is_complete:
                del self._watched[partition]
                if leadership is not None:
                    leadership.is_watched = False
            # Nobody can follow a disk that has failed, which is no reason to be alone in the ISR.
            elif not partition.is_offline:
                yield leadership

    def resign(self) -> None:
        """Have others elected for what this broker leads on a disk that has failed, now and whenever they can be."""
        self._has_failed_disk = True
        for partition in self._partitions():
            if partition.leadership is not None and partition.is_offline and partition not in self._resigning:
                self._resigning.add(partition)
                self._spawn(self._resign(partition))

    def on_records(self, records: Sequence[Record]) -> None:
        """Who is admitted may be in sync already."""
        if any(isinstance(record, BrokerAdmitted) for record in records):
            self.grow()

    async def stop(self) -> None:
        """Give up what is on its way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _resign(self, partition: Partition) -> None:
        try:
            async with self._turns:
                for _ in range(DECISION_ATTEMPTS_MAX):
                    record = self._resignation(partition)
                    if record is None:
                        return
                    try:
                        await self._metadata.commit([record])
                        log.warning("%s: resigned, because its disk has failed", partition.name)
                    except (BadVersionError, NoNodeError):
                        continue  # the image knows of the change that was faster
                    except OutcomeUnknown:
                        await self._metadata.store.wait_connected()
                    except StorageError as error:
                        log.error("%s: cannot resign: %s", partition.name, error)
                        return
        finally:
            self._resigning.discard(partition)

    def _resignation(self, partition: Partition) -> PartitionRecord | None:
        """The state without this leader; None if it does not lead or nobody else who lives has everything."""
        image = self._metadata.image
        topic = image.topics.get(partition.topic)
        state = None if topic is None else topic.leadership.get(partition.index)
        if topic is None or state is None or state.leader_epoch != partition.leader_epoch or not partition.is_leader:
            return None
        left = tuple(broker_id for broker_id in state.isr if broker_id != state.leader)
        if not any(image.is_live(broker_id) for broker_id in left):
            return None
        # What it has may be lost, so it is not eligible either.
        state_after = with_isr(
            *(state, left, topic.assignment[partition.index], partition.config.min_insync_replicas),
            unclean=[state.leader],
        )
        return replace(state_after, leader=NO_BROKER, leader_epoch=state.leader_epoch + 1)

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
