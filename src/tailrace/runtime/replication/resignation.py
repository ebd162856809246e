"""Leaders that resign because their replica is offline, so that the controller elects another replica.

A replica is offline when its disk has failed, or when a bug has stopped it (`Partition.go_offline`).

The leader writes a state of its partition without a leader and without itself in the ISR, conditional on the version
of the node that the image was built from. If no other live replica is in sync it stays leader, and refuses requests.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tailrace.base.limits import DECISION_ATTEMPTS_MAX, ISR_CHANGES_AT_ONCE_MAX
from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import BadVersionError, NoNodeError, OutcomeUnknown
from tailrace.machines.controller.election import with_isr
from tailrace.machines.controller.record import PartitionRecord
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas
from tailrace.storage.error import StorageError
from tailrace.storage.log_dir import LogDir

log = logging.getLogger("tailrace.runtime")


class LeaderResignation:
    """Gives up leadership of the partitions whose replicas here are offline."""

    def __init__(
        self, metadata: ClusterMetadata, replicas: Replicas, log_dirs: Sequence[LogDir], retry_interval_ms: int
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._log_dirs = log_dirs
        self._retry_interval_s = retry_interval_ms / 1000
        self._turns = asyncio.Semaphore(ISR_CHANGES_AT_ONCE_MAX)
        self._failed = asyncio.Event()

    def watch(self) -> None:
        """Have every log folder report its failure, from whichever thread notices it."""
        loop = asyncio.get_running_loop()
        for log_dir in self._log_dirs:
            log_dir.when_offline(lambda: loop.call_soon_threadsafe(self._failed.set))

    async def run(self) -> None:
        """Resign as soon as a folder fails, and again whenever another replica may have caught up, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_interval_s):
                    await self._failed.wait()
            if self._failed.is_set():
                self._failed.clear()
                self._replicas.assume_all_roles()  # a partition on a failed disk does not follow either
            await self.resign()

    async def resign(self) -> None:
        """Resign from every partition whose replica here is offline and that another live replica can lead."""
        led = [each for each in self._replicas.all() if each.is_leader and each.is_offline]
        await asyncio.gather(*(self._resign(partition) for partition in led))

    async def _resign(self, partition: Partition) -> None:
        async with self._turns:
            for _ in range(DECISION_ATTEMPTS_MAX):
                record = self._state_without_leader(partition)
                if record is None:
                    return
                try:
                    await self._metadata.commit([record])
                    log.warning("%s: this broker resigned as leader because its replica is offline", partition.name)
                except (BadVersionError, NoNodeError):
                    continue  # the image already has the change that came first
                except OutcomeUnknown:
                    await self._metadata.store.wait_connected()
                except StorageError as error:
                    log.error("%s: this broker cannot resign as leader: %s", partition.name, error)
                    return

    def _state_without_leader(self, partition: Partition) -> PartitionRecord | None:
        """Return the state to write; None if this broker does not lead, or no other live replica is in sync."""
        image = self._metadata.image
        topic = image.topics.get(partition.topic)
        state = None if topic is None else topic.leadership.get(partition.index)
        if topic is None or topic.topic_id != partition.topic_id or state is None:
            return None
        if state.leader_epoch != partition.leader_epoch or not partition.is_leader:
            return None
        left = tuple(broker_id for broker_id in state.isr if broker_id != state.leader)
        if not any(image.is_live(broker_id) for broker_id in left):
            return None
        # Records of a replica that is offline may be lost, so this broker is not an eligible leader replica either.
        state_after = with_isr(
            *(state, left, topic.assignment[partition.index], partition.config.min_insync_replicas),
            unclean=[state.leader],
        )
        return replace(state_after, leader=NO_BROKER, leader_epoch=state.leader_epoch + 1)
