"""The replica fetchers of a broker: a few for each leader, each with a share of the partitions."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from zlib import crc32

from tailrace.base.clock import Clock
from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_BROKER_EPOCH
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import BrokerAdmitted, BrokerRecord, Record
from tailrace.runtime.partition import Partition
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_route import PeerRoute
from tailrace.runtime.replication.fetcher import ReplicaFetcher
from tailrace.runtime.replication.start_checkpoint import StartCheckpoints
from tailrace.runtime.replication.throttle import ReplicationThrottle

Lane = tuple[int, int]
"""A leader, and the number of one of its fetchers."""


class FetcherPool:
    """Assigns each partition that another broker leads to a fetcher for that leader."""

    def __init__(
        self,
        broker_id: int,
        image: ClusterImage,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        worker: Executor,
        throttle: ReplicationThrottle,
        route: PeerRoute,
    ) -> None:
        self._route = route
        self._throttle = throttle
        self._broker_id = broker_id
        self._image = image
        self._config = config
        self._clock = clock
        self._worker = worker
        self._start_checkpoints = StartCheckpoints(config, clock, worker)
        self._fetchers: dict[Lane, ReplicaFetcher] = {}
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._lanes: dict[Partition, tuple[Lane, int]] = {}
        self._is_stopped = False

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's current leader."""
        if self._is_stopped:
            return  # the image still changes while the broker stops
        invariant(partition.leader_id != self._broker_id, f"{partition.name} is led by this broker and follows it")
        lane = partition.leader_id, crc32(partition.name.encode()) % self._config().num_replica_fetchers
        wanted = lane, partition.leader_epoch
        if self._lanes.get(partition) == wanted:
            return
        self.leave(partition)
        self._lanes[partition] = wanted
        self._fetcher(lane).add(partition)

    def redistribute(self) -> None:
        """Assign the partitions again after a change of `num.replica.fetchers`."""
        for partition in list(self._lanes):
            self.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        left = self._lanes.pop(partition, None)
        if left is None:
            return
        lane, _ = left
        self._fetchers[lane].remove(partition)
        if not len(self._fetchers[lane]):
            # Not at once: another partition is often assigned to the same fetcher right afterwards.
            asyncio.get_running_loop().call_soon(self._end_if_idle, lane)

    def on_records(self, records: Sequence[Record]) -> None:
        """Wake fetchers whose leader, or this broker, was registered or admitted."""
        back = {record.broker_id for record in records if isinstance(record, BrokerRecord | BrokerAdmitted)}
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id in back or self._broker_id in back:
                fetcher.wake()

    async def stop(self) -> None:
        """Stop all fetchers, and start no others."""
        self._is_stopped = True
        tasks = [*self._tasks.values(), *self._ending]
        self._tasks, self._fetchers, self._lanes = {}, {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fetcher(self, lane: Lane) -> ReplicaFetcher:
        fetcher = self._fetchers.get(lane)
        if fetcher is None:
            leader_id, number = lane
            peer = Peer(self._image, leader_id, self._route, f"broker-{self._broker_id}-fetcher-{number}")
            fetcher = self._fetchers[lane] = ReplicaFetcher(
                peer,
                self._broker_id,
                self._broker_epoch,
                self._config,
                self._clock,
                self._worker,
                self._throttle,
                self._start_checkpoints,
            )
            self._tasks[lane] = asyncio.get_running_loop().create_task(fetcher.run())
        return fetcher

    def _broker_epoch(self) -> int:
        broker = self._image.brokers.get(self._broker_id)
        return NO_BROKER_EPOCH if broker is None else broker.epoch

    def _end_if_idle(self, lane: Lane) -> None:
        fetcher = self._fetchers.get(lane)
        if fetcher is not None and not len(fetcher):
            del self._fetchers[lane]
            task = self._tasks.pop(lane)
            task.cancel()
            # The task still has to close its connection.
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
