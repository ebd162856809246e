"""What the two consumers share: everything but waiting."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from runnel.client.assignment import PartitionState
from runnel.client.commit import Committable, read_offsets
from runnel.client.consumer_record import ConsumerRecord, read_consumer_records
from runnel.client.consumer_setting import ConsumerSettings
from runnel.client.fetch import FetchOptions
from runnel.client.fetch_queue import Chunk
from runnel.client.fetcher import Fetcher
from runnel.client.group import Group
from runnel.client.group_offset import GroupMetadata, OffsetAndMetadata
from runnel.client.isolation import Isolation
from runnel.client.offset import EARLIEST, LATEST, NOT_FOUND, OffsetAt, list_offsets
from runnel.client.place import AT_COMMITTED, Place, PlaceName, read_place, read_reset
from runnel.client.producer_core import open_cluster
from runnel.client.rebalance import NO_LISTENER, RebalanceListener
from runnel.client.topic_partition import TopicPartition
from runnel.records.error import RecordError

if TYPE_CHECKING:
    import pyarrow as pa

    from runnel.records.arrow_decode import ColumnDecoder

Target: TypeAlias = tuple[str, int]
Assignable: TypeAlias = tuple[str, int] | tuple[str, int, PlaceName]
Subscription: TypeAlias = str | re.Pattern[str] | Iterable[str]


class ConsumerCore:
    """A fetcher, and how what it brings is handed out."""

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
        """Reach the cluster, or raise `BootstrapError` at once."""
        if not self.is_started:
            await self.cluster.connect()
            if not self.is_started:  # another task may have been quicker
                self.is_started = True
                self.fetcher.start()
                if self.group is not None:
                    self.group.start()

    async def close(self) -> None:
        """Stop fetching and close every connection. Who is in a group has left it before."""
        if self.group is not None:
            await self.group.close()
        await self.fetcher.close()
        await self.cluster.close()

    async def partitions_of(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        await self.start()
        return list(range(len((await self.cluster.topic(topic)).partitions)))

    async def find_times(self, times: Mapping[Target, int]) -> dict[TopicPartition, OffsetAt | None]:
        """The first offset at or after a time in each partition; None where no record is as young."""
        await self.start()
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), timestamp_ms in times.items():
            by_topic.setdefault(topic, {})[partition] = timestamp_ms
        found: dict[TopicPartition, OffsetAt | None] = {}
        for topic, timestamps in by_topic.items():
            for partition, at in (await list_offsets(self.cluster, topic, timestamps, self.isolation)).items():
                found[TopicPartition(topic, partition)] = None if at.offset == NOT_FOUND else at
        return found

    async def find_bounds(self, targets: Iterable[Target], *, is_end: bool) -> dict[TopicPartition, int]:
        """The first offset of each partition, or the one after the last that may be read."""
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
                raise ValueError("subscribe to the name of a topic, to several, or to a compiled pattern")
        if self.group is not None:
            if self.group.subscription.is_empty and self.assigned():
                raise ValueError("partitions are assigned already; unsubscribe first")
            self.listener = listener
            self.group.subscribe(topics, pattern)
            return
        if listener != NO_LISTENER:
            raise ValueError("callbacks are for members of a group; set group_id")
        if self.reset is None:
            raise ValueError("auto_offset_reset=none leaves no place to begin; use assign and say where")
        self.fetcher.subscribe(topics, pattern)

    def assign(self, partitions: Iterable[Assignable]) -> None:
        """Read these partitions."""
        if self.group is not None and not self.group.subscription.is_empty:
            raise ValueError("the group assigns the partitions; unsubscribe first")
        default = self.reset if self.group is None else AT_COMMITTED
        places = []
        for item in partitions:
            topic, partition, *start = item
            place = read_place(start[0]) if start else default
            if place is None:
                raise ValueError(f"auto_offset_reset=none leaves no place to begin {topic}-{partition}; say where")
            places.append((TopicPartition(topic, partition), place))
        self.fetcher.assign(places)

    def forget(self) -> None:
        """Read nothing any more."""
        if self.group is not None:
            self.group.subscription.set((), None)
        self.fetcher.assign(())
        self.listener = NO_LISTENER

    def joined_group(self) -> Group:
        """The group; raises ValueError for a consumer that has none."""
        if self.group is None:
            raise ValueError("commits belong to a group; set group_id")
        return self.group

    def offsets_to_commit(self, what: Committable | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a user means by what it commits: everything handed out for None."""
        group = self.joined_group()
        return group.positions() if what is None else read_offsets(what, group.positions(), self._last_batch)

    def offsets_to_send(
        self, what: Committable | None
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """What a producer commits for this consumer inside its transaction, and for whom."""
        if self.settings.enable_auto_commit:
            text = "offsets that a transaction commits must not be committed besides"
            raise ValueError(f"{text}; set enable_auto_commit=False for the consumer")
        group, offsets = self.joined_group(), self.offsets_to_commit(what)
        metadata = group.metadata()
        group.check_owned(offsets)
        return offsets, metadata

    def move(self, targets: Iterable[Target], place: Place) -> None:
        """Read some partitions from elsewhere, all that are assigned if none is named."""
        self.fetcher.move(dict.fromkeys(list(targets) or self.assigned(), place))

    def assigned(self, *, only_paused: bool = False) -> list[TopicPartition]:
        """The partitions that are read, or those of them that are paused."""
        with self.fetcher.lock:
            return sorted(state.target for state in self.fetcher.assignment if state.is_paused or not only_paused)

    def known_position(self, target: Target) -> int | None:
        """The next offset to be handed out; None while it is not known. Raises what keeps it from being known."""
        with self.fetcher.lock:
            state = self.fetcher.assignment.find(target)
            if state.error is not None:
                raise state.error
            return None if state.place is not None else state.position

    def lags(self) -> dict[TopicPartition, int | None]:
        """How many offsets are left of each partition, by what the last fetch told; None before the first."""
        with self.fetcher.lock:
            return {state.target: state.lag for state in sorted(self.fetcher.assignment, key=lambda one: one.target)}

    # --- handing out

    def records(self, chunk: Chunk) -> Iterator[ConsumerRecord]:
        """The records of a chunk; the position goes with them. It ends when the partition was moved elsewhere."""
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
        """The records of a chunk as Arrow record batches that are not empty; the position goes with them."""
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
            from runnel.records.arrow_decode import ColumnDecoder

            decoder = ColumnDecoder(*target, columns, check_crcs=self.settings.check_crcs)
            self._decoders[target, columns] = decoder
        return decoder


class RecordQueue:
    """Chunks whose records are being handed out; those of a paused partition wait."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._parts: deque[tuple[PartitionState, Iterator[ConsumerRecord]]] = deque()

    def add(self, chunk: Chunk) -> None:
        """Hand out the records of a chunk after the others."""
        self._parts.append((chunk.state, self._core.records(chunk)))

    def clear(self) -> None:
        """Hand out nothing more of what is there."""
        self._parts.clear()

    def put_back(self) -> None:
        """Have what is left fetched again, for somebody who reads in another way."""
        while self._parts:
            state, _ = self._parts.popleft()
            self._core.fetcher.rewind(state, state.generation)

    def next(self) -> ConsumerRecord | None:
        """The next record; None when another chunk is needed."""
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
        """Some records, as many as there are or are wanted."""
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
                break  # first those before the damage, which the partition remembers
            if len(found) == count_max:
                break
            self._parts.popleft()
        return found


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns to read, all of them for None; raises ValueError for one that records do not have."""
    from runnel.records.arrow_schema import ALL_COLUMNS, schema_of

    wanted = ALL_COLUMNS if columns is None else tuple(columns)
    schema_of(wanted)
    return wanted


def read_times(times: Mapping[Target, Any]) -> dict[Target, int]:
    """Times given as milliseconds or datetimes, in milliseconds."""
    return {
        target: round(moment.timestamp() * 1000) if isinstance(moment, datetime) else int(moment)
        for target, moment in times.items()
    }
