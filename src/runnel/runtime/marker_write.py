"""Writing the ends of transactions into the partitions that this broker leads."""

import asyncio
from collections.abc import Callable

from runnel.base.clock import Clock
from runnel.base.limits import MARKER_COMMIT_MS
from runnel.machines.log_replay import TransactionEnd
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.runtime.commit_wait import CommitEnd
from runnel.runtime.coordinator_topic import OFFSETS_TOPIC
from runnel.runtime.group_coordinator import GroupCoordinators
from runnel.runtime.partition import Partition, TransactionMarker
from runnel.runtime.replicas import Replicas

Written = Callable[[ErrorCode], None]
"""Hears what has become of a marker, at once or later."""


class MarkerWriter:
    """Writes markers, and tells when all replicas in sync have them."""

    def __init__(self, clock: Clock, replicas: Replicas, groups: GroupCoordinators) -> None:
        self._clock = clock
        self._replicas = replicas
        self._groups = groups

    def write(self, topic: str, index: int, marker: TransactionMarker, written: Written) -> None:
        """Write a marker into a partition, and with it decide about the offsets of groups if it is one of theirs."""
        try:
            partition = self._replicas.get(topic, index)
            end_offset = self._append(partition, marker)
        except ApiError as error:
            written(error.code)
            return
        end = partition.when_committed(end_offset)
        if end is None:
            written(_outcome(partition, None))
        else:
            timer = asyncio.get_running_loop().call_later(MARKER_COMMIT_MS / 1000, _time_out, end)
            end.add_done_callback(lambda end: _committed(partition, end, timer, written))

    def _append(self, partition: Partition, marker: TransactionMarker) -> int:
        def append() -> int:
            return partition.append_marker(marker, self._clock.now_ms())

        if partition.topic != OFFSETS_TOPIC:
            return append()
        end = TransactionEnd(marker.producer_id, marker.is_commit)
        return self._groups.end_transaction(partition.index, end, append)


def _committed(partition: Partition, end: CommitEnd, timer: asyncio.TimerHandle, written: Written) -> None:
    timer.cancel()
    written(_outcome(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER if end.cancelled() else end.result()))


def _outcome(partition: Partition, code: ErrorCode | None) -> ErrorCode:
    if code is None:
        return ErrorCode.NONE if partition.is_sure_to_lead else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _time_out(end: CommitEnd) -> None:
    if not end.done():
        end.set_result(ErrorCode.REQUEST_TIMED_OUT)
