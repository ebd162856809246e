"""Changes of ISRs: a leader writes them to the metadata store, and looks for followers that do not keep up.

A leader proposes an ISR and continues with the maximal ISR; see `machines.replica.leader`. The write is conditional on
the version of the node that the image was built from, and on the id of the topic, so a leader that was replaced cannot
change anything. The image tells the outcome. If the connection to the store breaks, the write certainly did not happen
only if the store is connected again and the image has not changed.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from tailrace.base.invariant import invariant
from tailrace.base.limits import ISR_CHANGES_AT_ONCE_MAX
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import BadVersionError, NoNodeError, Operation, OutcomeUnknown
from tailrace.machines.controller.election import with_isr
from tailrace.machines.controller.record import BrokerAdmitted, PartitionRecord, Record
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.leadership import Leadership
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.runtime")


class IsrKeeper:
    """The ISRs of the partitions that this broker leads."""

    def __init__(self, metadata: ClusterMetadata, lag_max_ms: int) -> None:
        self._metadata = metadata
        self._lag_max_ms = lag_max_ms
        self._turns = asyncio.Semaphore(ISR_CHANGES_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: dict[Partition, None] = {}

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker is alive in this broker epoch, admitted and not stopping."""
        broker = self._metadata.image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.epoch == broker_epoch
            and not broker.is_stopping
            and self._metadata.image.is_live(broker_id)
        )

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is alive and admitted."""
        return self._metadata.image.is_live(broker_id)

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Write the ISR of a partition that this broker leads."""
        self._spawn(self._change(partition, partition.leader_epoch, isr))

    def _spawn(self, change: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Look for followers that do not keep up, and for those that may join an ISR, for ever."""
        while True:
            await asyncio.sleep(self._lag_max_ms / 2000)
            self.shrink()
            self.grow()

    def shrink(self) -> None:
        """Propose ISRs without followers that do not keep up."""
        for leadership in self._incomplete():
            leadership.shrink()

    def grow(self) -> None:
        """Propose ISRs with followers that may join now."""
        for leadership in self._incomplete():
            leadership.grow()

    def watch(self, partition: Partition) -> None:
        """Check the ISR of a partition periodically, until all followers are in sync and have all records."""
        self._watched[partition] = None

    def _incomplete(self) -> Iterator[Leadership]:
        for partition in tuple(self._watched):
            leadership = partition.leadership
            if leadership is None or leadership.is_complete:
                del self._watched[partition]
                if leadership is not None:
                    leadership.is_watched = False
            # Followers cannot fetch from a disk that has failed, and must not leave the ISR because of that.
            elif not partition.is_offline:
                yield leadership

    def on_records(self, records: Sequence[Record]) -> None:
        """Look for followers that may join, after a broker was admitted."""
        if any(isinstance(record, BrokerAdmitted) for record in records):
            self.grow()

    async def stop(self) -> None:
        """Cancel changes that are under way."""
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
                log.info("%s: the ISR is now %s", partition.name, list(isr))
            except (BadVersionError, NoNodeError):
                log.info("%s: the ISR did not change to %s, because another change came first", partition.name, isr)
                self._give_up(partition, isr)
            except OutcomeUnknown:
                # Once the store is connected, the image is up to date: a change that is still pending was not written.
                await self._metadata.store.wait_connected()
                self._give_up(partition, isr)
            except StorageError as error:
                log.error("%s: the ISR %s could not be written: %s", partition.name, list(isr), error)
                self._give_up(partition, isr)
                return
        # Other followers may have caught up in the meantime. Without new records their fetches do not propose an ISR.
        if partition.leadership is not None:
            partition.leadership.grow()

    def _record(self, partition: Partition, leader_epoch: int, isr: tuple[int, ...]) -> PartitionRecord | None:
        """Return the state to write; None if the image has changed since the ISR was proposed."""
        topic = self._metadata.image.topics.get(partition.topic)
        state = None if topic is None else topic.leadership.get(partition.index)
        leadership = partition.leadership
        if (
            topic is None
            or topic.topic_id != partition.topic_id
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
        invariant(state.leader in isr, f"the leader of {partition.name} proposes an ISR without itself")
        return with_isr(state, isr, replicas, partition.config.min_insync_replicas)

    def _guards(self, partition: Partition, isr: tuple[int, ...]) -> list[Operation]:
        """Return conditions that fail if a joining broker crashed since it caught up: its admission changed then."""
        topic = self._metadata.image.topics[partition.topic]
        there = topic.leadership[partition.index].isr
        return [self._metadata.admission_guard(broker_id) for broker_id in isr if broker_id not in there]

    def _give_up(self, partition: Partition, isr: tuple[int, ...]) -> None:
        leadership = partition.leadership
        # Compare identity, not equality: another change may be pending by now.
        if leadership is not None and leadership.machine.pending is isr:
            leadership.machine.give_up()
            leadership.settle()
