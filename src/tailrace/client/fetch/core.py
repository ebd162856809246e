"""The core of both consumers: everything but waiting."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.fetch.assignment import PartitionState
from tailrace.client.fetch.fetcher import Fetcher
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.queue import Chunk
from tailrace.client.fetch.record import ConsumerRecord, read_consumer_records
from tailrace.client.fetch.request import FetchOptions
from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.group.committable import Committable, read_offsets
from tailrace.client.group.group import Group
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.group.rebalance import NO_LISTENER, RebalanceListener
from tailrace.client.offset import EARLIEST, LATEST, OffsetAt, list_offsets
from tailrace.client.place import AT_COMMITTED, Place, PlaceName, read_place, read_reset
from tailrace.client.produce.core import open_cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.error import RecordError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.records.arrow.decode import ColumnDecoder

Target: TypeAlias = tuple[str, int]
Assignable: TypeAlias = tuple[str, int] | tuple[str, int, PlaceName]
Subscription: TypeAlias = str | re.Pattern[str] | Iterable[str]


class ConsumerCore:
    """A fetcher, and the records of its chunks."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.isolation = Isolation[settings.isolation_level.upper()]
        self.cluster = open_cluster(settings)
        self.reset: Place | None = read_reset(settings.auto_offset_reset)
        self.fetcher = Fetcher(
            self.cluster,
            FetchOptions(
                isolation=self.isolation,
                max_wait_ms=settings.fetch_max_wait_ms,
                min_bytes=settings.fetch_min_bytes,
                partition_bytes_max=settings.max_partition_fetch_bytes,
                max_bytes=settings.fetch_max_bytes,
            ),
            reset=self.reset,
            api_timeout_ms=settings.default_api_timeout_ms,
            metadata_max_age_s=settings.metadata_max_age_ms / 1000,
        )
        self.group = (
            None if settings.group_id is None else Group(settings, settings.group_id, self.cluster, self.fetcher)
        )
        self.listener = NO_LISTENER
        self.is_started = False
        self._last_batch: tuple[object, TopicPartition, int] | None = None
        self._decoders: dict[tuple[TopicPartition, tuple[str, ...]], ColumnDecoder] = {}

    # --- on the loop

    async def start(self) -> None:
        """Connect to the cluster, or raise `BootstrapError` at once."""
        if not self.is_started:
            await self.cluster.connect()
            if not self.is_started:  # another task may have started it meanwhile
                self.is_started = True
                self.fetcher.start()
                if self.group is not None:
                    self.group.start()

    async def close(self) -> None:
        """Stop fetching and close every connection. The caller has left the group before."""
        if self.group is not None:
            await self.group.close()
        await self.fetcher.close()
        await self.cluster.close()

    async def partitions_of(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        await self.start()
        return list(range(len((await self.cluster.topic(topic)).partitions)))

    async def find_times(self, times: Mapping[Target, int]) -> dict[TopicPartition, OffsetAt | None]:
        """Return the first offset at or after a time in each partition; None if no record is that recent."""
        await self.start()
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), timestamp_ms in times.items():
            by_topic.setdefault(topic, {})[partition] = timestamp_ms
        found: dict[TopicPartition, OffsetAt | None] = {}
        for topic, timestamps in by_topic.items():
            for partition, at in (await list_offsets(self.cluster, topic, timestamps, self.isolation)).items():
                found[TopicPartition(topic, partition)] = None if at.offset == NO_OFFSET else at
        return found

    async def find_bounds(self, targets: Iterable[Target], *, is_end: bool) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, or the one after the last readable record."""
        found = await self.find_times(dict.fromkeys(targets, LATEST if is_end else EARLIEST))
        return {target: 0 if at is None else at.offset for target, at in found.items()}

    # --- from any thread

    def subscribe(self, subscription: Subscription, listener: RebalanceListener = NO_LISTENER) -> None:
        """Read every partition of these topics, or a share of them in a group."""
        topics: list[str] = []
        pattern = subscription if isinstance(subscription, re.Pattern) else None
        if pattern is None:
            topics = [subscription] if isinstance(subscription, str) else list(subscription)  # type: ignore[arg-type]
            if not topics or not all(isinstance(topic, str) and topic for topic in topics):
                raise ValueError("subscribe needs the name of a topic, several names, or a compiled pattern")
        if self.group is not None:
            if self.group.subscription.is_empty and self.assigned():
                raise ValueError("cannot subscribe while partitions are assigned; call unsubscribe first")
            self.listener = listener
            self.group.subscribe(topics, pattern)
            return
        if listener != NO_LISTENER:
            raise ValueError("rebalance callbacks need a group; set group_id")
        if self.reset is None:
            raise ValueError("auto_offset_reset=none gives subscribe no start; use assign with a start")
        self.fetcher.subscribe(topics, pattern)

    def assign(self, partitions: Iterable[Assignable]) -> None:
        """Read these partitions."""
        if self.group is not None and not self.group.subscription.is_empty:
            raise ValueError("cannot assign partitions while subscribed in a group; call unsubscribe first")
        default = self.reset if self.group is None else AT_COMMITTED
        places = []
        for item in partitions:
            topic, partition, *start = item
            place = read_place(start[0]) if start else default
            if place is None:
                raise ValueError(f"auto_offset_reset=none gives {topic}-{partition} no start; add one to assign")
            places.append((TopicPartition(topic, partition), place))
        self.fetcher.assign(places)

    def forget(self) -> None:
        """Stop reading all partitions."""
        if self.group is not None:
            self.group.subscription.set((), None)
        self.fetcher.assign(())
        self.listener = NO_LISTENER

    def joined_group(self) -> Group:
        """Return the group; raises ValueError if the consumer has none."""
        if self.group is None:
            raise ValueError("committed offsets belong to a group; set group_id")
        return self.group

    def offsets_to_commit(self, what: Committable | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that an argument of `commit` means; None means everything that was returned."""
        group = self.joined_group()
        return group.positions() if what is None else read_offsets(what, group.positions(), self._last_batch)

    def offsets_to_send(
        self, what: Committable | None
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """Return the offsets and the group metadata that a producer commits in its transaction."""
        if self.settings.enable_auto_commit:
            text = "a consumer whose offsets a transaction commits must not commit them itself"
            raise ValueError(f"{text}; set enable_auto_commit=False for the consumer")
        group = self.joined_group()
        metadata = group.metadata()  # first: in between, the positions may move to a new topic of the same name
        offsets = self.offsets_to_commit(what)
        group.check_owned(offsets)
        return offsets, metadata

    def move(self, targets: Iterable[Target], place: Place) -> None:
        """Continue partitions, or all that are assigned, at another place."""
        self.fetcher.move(dict.fromkeys(list(targets) or self.assigned(), place))

    def assigned(self, *, only_paused: bool = False) -> list[TopicPartition]:
        """Return the partitions that are read, or only the paused ones."""
        with self.fetcher.lock:
            return sorted(state.target for state in self.fetcher.assignment if state.is_paused or not only_paused)

    def known_position(self, target: Target) -> int | None:
        """Return the offset of the next record; None while it is unknown. Raises the error that prevents finding it."""
        with self.fetcher.lock:
            state = self.fetcher.assignment.find(target)
            if state.error is not None:
                raise state.error
            return None if state.place is not None else state.position

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return the lag of each partition as of its last fetch; None before the first."""
        with self.fetcher.lock:
            return {state.target: state.lag for state in sorted(self.fetcher.assignment, key=lambda one: one.target)}

    # --- handing out

    def records(self, chunk: Chunk) -> Iterator[ConsumerRecord]:
        """Iterate over the records of a chunk and advance the position. A seek ends the iteration."""
        state, generation = chunk.state, chunk.generation
        if state.generation == generation:
            state.leader_epochs = chunk.fetched.leader_epochs
        try:
            for record in read_consumer_records(chunk.fetched, check_crcs=self.settings.check_crcs):
                if state.generation != generation:
                    return
                state.position = record.offset + 1
                yield record
        except RecordError as error:
            self.fetcher.condemn(state, generation, error)
            raise
        if state.generation == generation:
            state.position = chunk.fetched.next_offset

    def columns(
        self, chunk: Chunk, columns: tuple[str, ...], end_offset: int | None = None
    ) -> Iterator["pa.RecordBatch"]:
        """Iterate over a chunk as Arrow record batches that are not empty, and advance the position."""
        state, generation, fetched = chunk.state, chunk.generation, chunk.fetched
        decoder = self._decoder(state.target, columns)
        if state.generation == generation:
            state.leader_epochs = fetched.leader_epochs
        try:
            for decoded in decoder.decode(fetched.data, fetched.offset, end_offset, fetched.aborted):
                if state.generation != generation:
                    return
                state.position = decoded.next_offset
                if decoded.record_batch.num_rows:
                    self._last_batch = (decoded.record_batch, state.target, decoded.next_offset)
                    yield decoded.record_batch
        except RecordError as error:
            self.fetcher.condemn(state, generation, error)
            raise

    def _decoder(self, target: TopicPartition, columns: tuple[str, ...]) -> "ColumnDecoder":
        decoder = self._decoders.get((target, columns))
        if decoder is None:
            from tailrace.records.arrow.decode import ColumnDecoder

            decoder = ColumnDecoder(*target, columns, check_crcs=self.settings.check_crcs)
            self._decoders[target, columns] = decoder
        return decoder


class RecordQueue:
    """Chunks whose records are being returned; those of a paused partition wait."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._parts: deque[tuple[PartitionState, Iterator[ConsumerRecord]]] = deque()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk behind the others."""
        self._parts.append((chunk.state, self._core.records(chunk)))

    def clear(self) -> None:
        """Drop all chunks."""
        self._parts.clear()

    def put_back(self) -> None:
        """Drop all chunks and fetch their remaining records again, for another way of reading."""
        while self._parts:
            state, _ = self._parts.popleft()
            self._core.fetcher.rewind(state, state.generation)

    def next(self) -> ConsumerRecord | None:
        """Return the next record; None if another chunk is needed."""
        for _ in range(len(self._parts)):
            state, records = self._parts[0]
            if state.is_paused:
                self._parts.rotate(-1)
                continue
            record = next(records, None)
            if record is not None:
                return record
            self._parts.popleft()
        return None

    def take(self, count_max: int) -> list[ConsumerRecord]:
        """Return records of all chunks, up to a number."""
        found: list[ConsumerRecord] = []
        for _ in range(len(self._parts)):
            state, records = self._parts[0]
            if state.is_paused:
                self._parts.rotate(-1)
                continue
            try:
                found += islice(records, count_max - len(found))
            except RecordError:
                if not found:
                    raise
                break  # return the records before the damage first; the partition keeps the error
            if len(found) == count_max:
                break
            self._parts.popleft()
        return found


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns to read, all for None; raises ValueError for an unknown one."""
    from tailrace.records.arrow.schema import ALL_COLUMNS, schema_of

    wanted = ALL_COLUMNS if columns is None else tuple(columns)
    schema_of(wanted)
    return wanted


def read_times(times: Mapping[Target, Any]) -> dict[Target, int]:
    """Convert times given as milliseconds or datetimes to milliseconds."""
    return {
        target: round(moment.timestamp() * 1000) if isinstance(moment, datetime) else int(moment)
        for target, moment in times.items()
    }
