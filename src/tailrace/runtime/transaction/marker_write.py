"""Writing the ends of transactions into the partitions that this broker leads."""

from collections.abc import Callable

from tailrace.base.clock import Clock
from tailrace.base.limits import MARKER_COMMIT_MS
from tailrace.machines.log_replay import TransactionEnd
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.acknowledgement import when_acknowledged
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC
from tailrace.runtime.group.coordinator import GroupCoordinators
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas

Written = Callable[[ErrorCode], None]
"""Called with the outcome of a marker, at once or later."""


class MarkerWriter:
    """Writes markers, and tells when all replicas in sync have them."""

    def __init__(self, clock: Clock, replicas: Replicas, groups: GroupCoordinators) -> None:
        self._clock = clock
        self._replicas = replicas
        self._groups = groups

    def write(self, topic: str, index: int, marker: TransactionMarker, written: Written) -> None:
        """Append a marker to a partition, and decide with it about the offsets of groups if it is one of theirs."""
        try:
            partition = self._replicas.get(topic, index)
            end_offset = self._append(partition, marker)
        except ApiError as error:
            written(error.code)
        else:
            when_acknowledged(partition, end_offset, MARKER_COMMIT_MS, written)

    def _append(self, partition: Partition, marker: TransactionMarker) -> int:
        def append() -> int:
            return partition.append_marker(marker, self._clock.now_ms())

        if partition.topic != OFFSETS_TOPIC:
            return append()
        end = TransactionEnd(marker.producer_id, marker.is_commit)
        return self._groups.end_transaction(partition.index, end, append)
