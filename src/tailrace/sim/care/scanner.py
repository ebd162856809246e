"""A client that reads logs from their start to their end, in fetch sessions and from the replica in its rack."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.request import read_fetched
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchResponsePartition
from tailrace.records.record import read_batches, read_records
from tailrace.sim.care.fetch_session import FetchSession
from tailrace.sim.care.lookup import look_up
from tailrace.sim.history import Pending
from tailrace.sim.workload import FAILURES
from tailrace.sim.world import World

_EMPTY_REPLIES_MAX = 50  # each takes a tenth of a second


@dataclass(slots=True)
class _Scan:
    """One partition, read from `position` to `end_offset`."""

    operation: Pending
    position: int
    end_offset: int
    records: list[list[object]] = field(default_factory=list)
    empty_count: int = 0
    is_over: bool = False

    def take(self, topic: str, answer: FetchResponsePartition) -> None:
        """Add the records of a fetch."""
        fetched = read_fetched(topic, self.position, answer)
        if fetched is None:
            return
        for position, _ in read_batches(fetched.data):
            for record in read_records(fetched.data, position):
                if record.offset >= self.position:
                    self.records.append([record.offset, _text(record.key), _text(record.value), record.timestamp])
        self.position = fetched.next_offset
        self.empty_count = 0


class Scanner:
    """Reads partitions as one consumer."""

    def __init__(self, world: World, cluster: Cluster, name: str, *, rack: str, partition_bytes_max: int) -> None:
        self._world = world
        self._cluster = cluster
        self._name = name
        self._rack = rack
        self._partition_bytes_max = partition_bytes_max
        self._sessions: dict[int, FetchSession] = {}
        self._nearer: dict[TopicPartition, int] = {}

    async def scan(self, targets: Sequence[TopicPartition], *, is_final: bool = False) -> bool:
        """Read each partition once, and record it. Return whether all were read to their ends."""
        scans: dict[TopicPartition, _Scan] = {}
        for target in targets:
            start = await look_up(self._world, self._cluster, self._name, target, EARLIEST, is_final=is_final)
            end = await look_up(self._world, self._cluster, self._name, target, LATEST, is_final=is_final)
            operation = self._world.recorder.invoke(
                self._name, "scan", partition=str(target), offset=start.offset, final=is_final
            )
            scans[target] = _Scan(operation, start.offset, end.offset)
        try:
            while left := {target: each for target, each in scans.items() if self._is_wanted(each, is_final)}:
                await self._fetch(left)
        finally:
            for each in scans.values():
                is_stalled = each.empty_count > _EMPTY_REPLIES_MAX
                each.operation.ok(end=each.position, records=each.records, stalled=is_stalled)
        return all(each.position >= each.end_offset for each in scans.values())

    def _is_wanted(self, scan: _Scan, is_final: bool) -> bool:
        if scan.is_over or scan.empty_count > _EMPTY_REPLIES_MAX or (self._world.is_ending and not is_final):
            return False
        # During faults, read on: the next records may not be committed yet.
        return scan.position < scan.end_offset or (scan.empty_count == 0 and not is_final)

    async def _fetch(self, scans: dict[TopicPartition, _Scan]) -> None:
        """Fetch once from each broker that has some of the partitions."""
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for target, scan in scans.items():
            leader_id = await self._cluster.leader_id(*target)
            by_node.setdefault(self._nearer.get(target, leader_id), {})[target] = scan.position
        for node_id, positions in by_node.items():
            session = self._sessions.setdefault(
                node_id, FetchSession(self._cluster, node_id, self._rack, self._partition_bytes_max)
            )
            try:
                answers = await session.fetch(positions)
            except FAILURES:
                self._forget(positions)
                raise
            for target in positions:
                scans[target].empty_count += 1
                if (answer := answers.get(target)) is not None:
                    self._take(target, answer, scans[target])

    def _take(self, target: TopicPartition, answer: FetchResponsePartition, scan: _Scan) -> None:
        if answer.error_code:
            self._world.count(f"care fetch {ErrorCode(answer.error_code).name.lower()}")
            self._forget([target])
            scan.is_over = True
        elif answer.preferred_read_replica >= 0:
            self._world.count("care fetch from a follower")
            self._nearer[target] = answer.preferred_read_replica
        else:
            scan.take(target.topic, answer)

    def _forget(self, targets: "Sequence[TopicPartition] | dict[TopicPartition, int]") -> None:
        for target in targets:
            self._nearer.pop(target, None)
            self._cluster.forget(target.topic)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
