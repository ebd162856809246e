"""The reader of a bucket's partitions: one fetch for each broker at a time, and the next one while the last is
written."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.base.mirror_limits import MIRROR_FETCH_BYTES_MAX, MIRROR_PARTITION_FETCH_BYTES_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, ClientError, RequestTimeout
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.request import Fetched, FetchOptions, build_fetches, fetch_version_max, read_fetched
from tailrace.client.metadata import NO_LEADER
from tailrace.client.offset import EARLIEST, LATEST, list_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.fetch import FetchResponse, FetchResponsePartition
from tailrace.records.error import RecordError

_log = logging.getLogger(__name__)

_WAIT_MS = 250
_PASSING = (BrokerUnavailable, RequestTimeout)


@dataclass(slots=True)
class Position:
    """Where the mirror is in one partition of the source."""

    offset: int
    """The next offset to read."""
    end_offset: int = -1
    """The end of the committed records, as of the last fetch; -1 if it is unknown."""
    lost: int = 0
    """The number of offsets that the source deleted before they were copied."""
    error: str | None = None
    is_stopped: bool = False
    """Whether the partition is not read any more in this round, because of its error."""


@dataclass(slots=True)
class _Flight:
    """A fetch under way: the broker that it asks, and the offsets."""

    leader_id: int
    wanted: dict[TopicPartition, int] = field(default_factory=dict)


class SourceReader:
    """Reads records of some partitions, by default committed ones. Use it on one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        wait_ms: int = _WAIT_MS,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self.positions = {partition: Position(offset) for partition, offset in positions.items()}
        self.error: str | None = None
        """The reason why a broker cannot be asked at the moment."""
        self._cluster = cluster
        self._options = FetchOptions(
            isolation=isolation,
            max_wait_ms=wait_ms,
            partition_bytes_max=MIRROR_PARTITION_FETCH_BYTES_MAX,
            max_bytes=MIRROR_FETCH_BYTES_MAX,
        )
        self._flights: dict[asyncio.Task[list[Fetched]], _Flight] = {}
        self._failure_count = 0

    async def next(self, timeout_s: float) -> list[Fetched]:
        """Return data that has arrived, at most one fetch of each broker; nothing after the time."""
        self._launch()
        if not self._flights:
            await asyncio.sleep(min(timeout_s, _WAIT_MS / 1000))
            return []
        done, _ = await asyncio.wait(self._flights, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        arrived: list[Fetched] = []
        for task in done:
            flight = self._flights.pop(task)
            arrived += await self._land(task, flight)
        self._launch()
        return arrived

    async def close(self) -> None:
        """Cancel the fetches under way."""
        tasks = list(self._flights)
        self._flights.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_at(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether all partitions have been read up to these offsets, or cannot be read."""
        return all(
            self.positions[partition].offset >= end or self.positions[partition].is_stopped
            for partition, end in ends.items()
            if partition in self.positions
        )

    # --- fetches

    def _launch(self) -> None:
        """Start a fetch from each broker that has none, for the partitions that it leads."""
        busy_partitions = {partition for flight in self._flights.values() for partition in flight.wanted}
        busy_leaders = {flight.leader_id for flight in self._flights.values()}
        flights: dict[int, _Flight] = {}
        for partition, position in self.positions.items():
            if partition in busy_partitions or position.is_stopped:
                continue
            topic = self._cluster.known_topic(partition.topic)
            leader_id = NO_LEADER if topic is None else topic.leader_id(partition.partition)
            if leader_id not in busy_leaders:
                flights.setdefault(leader_id, _Flight(leader_id)).wanted[partition] = position.offset
        for flight in flights.values():
            task = asyncio.get_running_loop().create_task(self._fetch(flight))
            self._flights[task] = flight

    async def _fetch(self, flight: _Flight) -> list[Fetched]:
        topics = {partition.topic for partition in flight.wanted}
        if flight.leader_id == NO_LEADER:
            if self._failure_count:
                await asyncio.sleep(self._cluster.backoff.wait_s(self._failure_count))
            await self._cluster.refresh(topics)
            self._note_leaderless(flight)
            return []
        known = {name: self._cluster.view.topics[name] for name in topics}
        connection = await self._cluster.connection(flight.leader_id, lane=self)
        reply = await connection.request(
            build_fetches(known, flight.wanted, self._options),
            FetchResponse,
            version_max=fetch_version_max(*known.values()),
            timeout_ms=self._cluster.request_timeout_ms + self._options.max_wait_ms,
        )
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), "fetching")
        names = {topic.topic_id: name for name, topic in known.items()}
        arrived = []
        for item in reply.responses:
            name = item.topic or names.get(item.topic_id, "")
            for answer in item.partitions:
                partition = TopicPartition(name, answer.partition_index)
                if partition in flight.wanted:
                    fetched = await self._accept(partition, flight.wanted[partition], answer)
                    if fetched is not None:
                        arrived.append(fetched)
        return arrived

    def _note_leaderless(self, flight: _Flight) -> None:
        is_leaderless = False
        for partition in flight.wanted:
            topic = self._cluster.view.topics.get(partition.topic)
            if topic is None or topic.error or not 0 <= partition.partition < len(topic.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None or not topic.error else topic.error
                self._stop(partition, f"{partition} cannot be read: {code.name}")
            is_leaderless |= topic is not None and topic.leader_id(partition.partition) == NO_LEADER
        self._failure_count = self._failure_count + 1 if is_leaderless else 0

    async def _land(self, task: "asyncio.Task[list[Fetched]]", flight: _Flight) -> list[Fetched]:
        try:
            arrived = task.result()
        except (ClientError, ApiError, RemoteProtocolError) as error:
            if not isinstance(error, _PASSING) and not (isinstance(error, ApiError) and error.code.retriable):
                raise
            self.error = str(error)
            self._failure_count += 1
            for partition in flight.wanted:
                self._cluster.forget(partition.topic)  # so that leaders are looked up after a wait
            return []
        if flight.leader_id != NO_LEADER:
            self.error, self._failure_count = None, 0
        for fetched in arrived:
            self.positions[TopicPartition(fetched.topic, fetched.partition)].offset = fetched.next_offset
        return arrived

    # --- answers

    async def _accept(self, partition: TopicPartition, offset: int, answer: FetchResponsePartition) -> Fetched | None:
        position = self.positions[partition]
        if answer.error_code:
            await self._refuse(partition, offset, ErrorCode(answer.error_code))
            return None
        has_stable_offset = self._options.isolation is Isolation.READ_COMMITTED and answer.last_stable_offset >= 0
        position.end_offset = answer.last_stable_offset if has_stable_offset else answer.high_watermark
        position.error = None
        try:
            return read_fetched(partition.topic, offset, answer)
        except RecordError as error:
            self._stop(partition, f"{partition} offset {offset}: {error}")
            return None

    async def _refuse(self, partition: TopicPartition, offset: int, code: ErrorCode) -> None:
        position = self.positions[partition]
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            if not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
                self._stop(partition, f"{partition} cannot be read at offset {offset}: {code.name}")
            else:
                position.error = f"{partition}: {code.name}"
                self._cluster.forget(partition.topic)
            return
        number = partition.partition
        first = (await list_offsets(self._cluster, partition.topic, {number: EARLIEST}))[number].offset
        last = (await list_offsets(self._cluster, partition.topic, {number: LATEST}))[number].offset
        if offset > last:
            self._stop(
                partition,
                f"{partition} ends at offset {last} in the source, but has been copied up to offset {offset}: the "
                "topic was created anew, or lost records",
            )
        elif offset < first:
            _log.warning("%s: offsets %d to %d were deleted before they were copied", partition, offset, first - 1)
            position.lost += first - offset
            position.offset = first

    def _stop(self, partition: TopicPartition, error: str) -> None:
        position = self.positions[partition]
        position.error, position.is_stopped = error, True
