"""The delivery of a transaction's markers to the leaders of its partitions.

Once the end of a transaction is committed it is carried out in any case: markers are sent again, to the current leader,
until each partition has its marker or is deleted. If another broker becomes the coordinator, it sends them instead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakSet

from tailrace.base.limits import MARKER_RETRY_MS
from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.transaction.decision import EndMarkers
from tailrace.machines.transaction.transaction import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_queue import LOST, PeerQueue, ask_peer
from tailrace.runtime.transaction.marker_write import MarkerWriter

log = logging.getLogger("tailrace.runtime")

_FINISHED = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The partition has its marker, or cannot get it: its log has a later epoch of the producer."""

_DELETED = -2
"""In place of the leader of a partition that was deleted."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MarkerTask:
    """The markers of one transaction, on their way to its partitions."""

    markers: EndMarkers
    is_wanted: Callable[[], bool]  # whether this broker still coordinates the transaction
    written: Callable[[Iterable[TopicPartition]], None]  # called with partitions that have their marker or were deleted

    @property
    def marker(self) -> TransactionMarker:
        markers = self.markers
        return TransactionMarker(
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            markers.transaction_version,
            markers.is_commit,
        )


Part = tuple[MarkerTask, tuple[TopicPartition, ...]]


class MarkerSender:
    """Sends the markers of transactions from the coordinators of one broker."""

    def __init__(
        self, broker_id: int, image: ClusterImage, writer: MarkerWriter, peer_of: Callable[[int], Peer]
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._writer = writer
        self._queue: PeerQueue[Part] = PeerQueue(peer_of, self._send_to_peer, self._failed)
        self._late: list[Part] = []
        self._retry: asyncio.TimerHandle | None = None
        self._told: WeakSet[MarkerTask] = WeakSet()  # whose delay was logged
        self._failing: WeakSet[MarkerTask] = WeakSet()  # for which the bug that delays them was logged
        self._is_stopped = False

    def send(self, task: MarkerTask) -> None:
        """Send the markers of a transaction whose end is decided and committed."""
        self._send(task, task.markers.partitions)

    def unled_count(self) -> int:
        """Return the number of markers that wait for their partition to have a leader."""
        return sum(self._leader_of(partition) == NO_BROKER for _, partitions in self._late for partition in partitions)

    async def stop(self) -> None:
        """Stop sending; the next coordinator sends all markers again."""
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
        await self._queue.stop()

    def _send(self, task: MarkerTask, partitions: Iterable[TopicPartition]) -> None:
        if self._is_stopped or not task.is_wanted():
            return
        partitions = tuple(partitions)
        try:
            self._send_to_leaders(task, partitions)
        except Exception as error:
            self._failed([(task, partitions)], error)

    def _failed(self, parts: list[Part], error: Exception) -> None:
        """Retry after a bug: a marker that is lost would never be written."""
        for task, partitions in parts:
            if task not in self._failing:
                self._failing.add(task)
                log.error("markers of transaction %s could not be sent", task.markers.transactional_id, exc_info=error)
            self._send_later(task, partitions, f"{type(error).__name__}: {error}")

    def _send_to_leaders(self, task: MarkerTask, partitions: Iterable[TopicPartition]) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):  # sorted, so that a simulation is repeatable
            by_leader.setdefault(self._leader_of(partition), []).append(partition)
        for broker_id, there in by_leader.items():
            if broker_id == _DELETED:
                task.written(there)
            elif broker_id == NO_BROKER:
                self._send_later(task, there, "the partition has no leader")
            elif broker_id == self._broker_id:
                self._write_here(task, there)
            else:
                self._queue.add(broker_id, (task, tuple(there)))

    def _leader_of(self, partition: TopicPartition) -> int:
        name, index = partition
        topic = self._image.topics.get(name)
        if topic is None or index >= topic.partition_count:
            return _DELETED
        state = topic.leadership.get(index)
        return NO_BROKER if state is None else state.leader

    def _send_later(self, task: MarkerTask, partitions: Iterable[TopicPartition], reason: str) -> None:
        if self._is_stopped:
            return
        partitions = tuple(partitions)
        if task not in self._told:
            self._told.add(task)
            names = ", ".join(f"{topic}-{index}" for topic, index in partitions)
            log.warning(
                "the markers of transaction %s for %s are delayed: %s", task.markers.transactional_id, names, reason
            )
        self._late.append((task, partitions))
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(MARKER_RETRY_MS / 1000, self._send_late)

    def _send_late(self) -> None:
        late, self._late, self._retry = self._late, [], None
        for task, partitions in late:
            self._send(task, partitions)

    def _write_here(self, task: MarkerTask, partitions: list[TopicPartition]) -> None:
        marker = task.marker
        for partition in partitions:
            self._writer.write(*partition, marker, self._outcome(task, partition))

    def _outcome(self, task: MarkerTask, partition: TopicPartition) -> Callable[[ErrorCode], None]:
        return lambda code: self._heard(task, {partition: code})

    async def _send_to_peer(self, peer: Peer, parts: list[Part]) -> None:
        parts = [part for part in parts if part[0].is_wanted()]
        if not parts:
            return
        try:
            response = await ask_peer(peer, _request(parts), WriteTxnMarkersResponse)
        except (*LOST, ApiError) as error:
            for task, partitions in parts:
                self._send_later(task, partitions, f"broker {peer.broker_id} cannot be reached: {error}")
            return
        codes = _read(response)
        for task, partitions in parts:
            known = codes.get(task.markers.producer_id, {})
            self._heard(task, {each: known.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions})

    def _heard(self, task: MarkerTask, codes: dict[TopicPartition, ErrorCode]) -> None:
        name = task.markers.transactional_id
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
            log.info("another broker now coordinates transaction %s and writes its markers", name)
            return
        for partition, code in codes.items():
            if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                log.warning("%s-%d has a later producer epoch of transaction %s and gets no marker", *partition, name)
        finished = [partition for partition, code in codes.items() if code in _FINISHED]
        left = {partition: code for partition, code in codes.items() if code not in _FINISHED}
        if left:
            self._send_later(task, left, ", ".join(sorted({code.name for code in left.values()})))
        if finished and task.is_wanted():
            try:
                task.written(finished)
            except Exception as error:
                self._failed([(task, tuple(finished))], error)


def _request(parts: list[Part]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_request_marker(task.markers, partitions) for task, partitions in parts])


def _request_marker(markers: EndMarkers, partitions: Iterable[TopicPartition]) -> WriteTxnMarkersRequestMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return WriteTxnMarkersRequestMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.is_commit,
        topics=[WriteTxnMarkersRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )


def _read(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    """Return the outcomes by producer id and partition."""
    found: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        codes = found.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            codes.update({(topic.name, each.partition_index): ErrorCode(each.error_code) for each in topic.partitions})
    return found
