"""The replicas that held each committed record when it was committed, for min.insync.replicas.

A leader acknowledges a record that at least `min.insync.replicas` replicas have. It learns from their fetches that they
have it, which takes time: a replica that has been killed since, and even one that has lost the record with its power,
counted when it fetched. So a replica holds a record if its log has it, or its log had it when its last process ended.
Nothing is known of a broker that is starting: it may fetch before the simulation knows its logs. It counts, too.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tailrace.runtime.partition import Partition
from tailrace.sim.broker import SimBroker, replica_of
from tailrace.storage.log import Log


class _Advance(NamedTuple):
    """An advance of a high watermark, the replicas that had everything below it, and how many were required."""

    end_offset: int
    holders: tuple[int, ...]
    required_count: int


class Holders:
    """What is known of every advance of a high watermark."""

    def __init__(self, brokers: Mapping[int, SimBroker]) -> None:
        self._brokers = brokers
        self._advances: dict[tuple[UUID, int], list[_Advance]] = {}

    def advanced(self, partition: Partition, replica_count: int) -> None:
        """Note that a leader has advanced its high watermark."""
        advances = self._advances.setdefault((partition.topic_id, partition.index), [])
        end_offset = partition.high_watermark
        if advances and advances[-1].end_offset >= end_offset:
            return
        last = end_offset - 1
        epoch = partition.log.epochs.epoch_for(last)
        holders = tuple(
            broker.broker_id
            for broker in self._brokers.values()
            if (broker.is_up and broker.broker is None)
            or any(_holds(log, last, epoch) for log in _logs(broker, partition))
        )
        required_count = min(partition.config.min_insync_replicas, replica_count)
        advances.append(_Advance(end_offset, holders, required_count))

    def find_missing(self, partition: Partition, offset: int) -> str | None:
        """Return what is wrong if this record is acknowledged; None if enough replicas had it."""
        advances = self._advances.get((partition.topic_id, partition.index), [])
        first = bisect_right(advances, offset, key=lambda advance: advance.end_offset)
        if first == len(advances) or len(advances[first].holders) >= advances[first].required_count:
            return None  # a high watermark that has not passed it is judged elsewhere
        advance = advances[first]
        return f"brokers {advance.holders} have it, but min.insync.replicas is {advance.required_count}"


def _logs(broker: SimBroker, partition: Partition) -> list[Log]:
    """Return the broker's log of a partition, and the one that its previous process left."""
    key, replica = (partition.topic_id, partition.index), replica_of(partition, broker.replicas())
    found = [] if replica is None else [replica.log]
    return [*found, broker.left[key]] if key in broker.left else found


def _holds(log: Log, offset: int, leader_epoch: int) -> bool:
    """Return whether a log has the record that the leader of this epoch wrote at an offset."""
    if offset < log.log_start_offset:
        return True  # it had the record, and has deleted it
    return log.log_end_offset > offset and log.epochs.epoch_for(offset) == leader_epoch
