"""The consumer for ordinary code: a thread fetches ahead, the caller takes what has arrived."""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from runnel.client.commit import Committable
from runnel.client.consumer_core import (
    Assignable,
    ConsumerCore,
    RecordQueue,
    Subscription,
    Target,
    check_columns,
    read_times,
)
from runnel.client.consumer_record import ConsumerRecord
from runnel.client.consumer_setting import ConsumerSettings
from runnel.client.error import ClientClosed, RequestTimeout
from runnel.client.fetch_queue import Chunk
from runnel.client.group_member import Step
from runnel.client.group_offset import GroupMetadata, OffsetAndMetadata
from runnel.client.loop_thread import LoopThread
from runnel.client.offset import OffsetAt
from runnel.client.place import AT_COMMITTED, AT_EARLIEST, AT_LATEST, PlaceName, read_place
from runnel.client.rebalance import RebalanceCallback, RebalanceListener
from runnel.client.setting import SettingValue
from runnel.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer:
    """Reads records from topics, one by one or as Arrow record batches; for one thread at a time.

        for record in runnel.Consumer("localhost:9092").subscribe("page_views"):
            print(record.key, record.value)
        for record in runnel.Consumer("localhost:9092", group_id="ml").subscribe("page_views"):
            print(record.key, record.value)
        for batch in runnel.Consumer("localhost:9092").assign([("page_views", 0, "earliest")]).batches():
            print(batch.num_rows)

    Settings have Kafka's names, as keywords (`isolation_level="read_committed"`) or in `config`. With a
    group, `subscribe` shares the partitions with the group's other members and goes on where they
    stopped; without one it reads every partition, from where `auto_offset_reset` says. The next
    records are fetched while the caller works on these.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        """Nothing is asked yet: a cluster that cannot be reached is an error of the first read."""
        self._settings = ConsumerSettings(bootstrap_servers, config, settings)
        self._core = ConsumerCore(self._settings)
        self._group = self._core.group
        self._thread = LoopThread("runnel-consumer")
        self._records = RecordQueue(self._core)
        self._is_closing = False
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(commits=error is None)

    # --- what to read

    def subscribe(
        self,
        topics: Subscription,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> Self:
        """Read a topic, several, or those whose whole names match a compiled pattern.

        In a group the partitions are shared with the other members. Callbacks are called with a list of
        partitions, by the reading calls, when this member is given some, lets go of some, or learns that
        others have them already (`on_revoked` is called for that too where there is no `on_lost`).

        Without a group every partition is read, and those that appear later from their beginning.
        What was read before is forgotten.
        """
        self._core.subscribe(topics, RebalanceListener(on_assigned, on_revoked, on_lost))
        if self._group is None:
            self._records.clear()
        return self

    def unsubscribe(self) -> None:
        """Leave the group, after a last automatic commit; and read nothing any more."""
        if self._group is not None and self._core.is_started:
            self._leave(commits=True)
        self._core.forget()
        self._records.clear()

    def assign(self, partitions: Iterable[Assignable]) -> Self:
        """Read these partitions: (topic, partition), or (topic, partition, start).

        A start is "earliest", "latest", an offset, a datetime, a time as text, or a time ago such as "-1h".
        """
        self._core.assign(partitions)
        self._records.clear()
        return self

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read. Those of a subscription are known after the first read."""
        return self._core.assigned()

    def seek(self, topic: str, partition: int, start: PlaceName) -> None:
        """Go on with a partition from an offset, or from any other start that `assign` knows."""
        self._core.move([(topic, partition)], read_place(start))

    def seek_to_beginning(self, *partitions: Target) -> None:
        """Go on from the first record of these partitions, or of all."""
        self._core.move(partitions, AT_EARLIEST)

    def seek_to_end(self, *partitions: Target) -> None:
        """Go on with what is written from now on to these partitions, or to all."""
        self._core.move(partitions, AT_LATEST)

    def seek_to_committed(self, *partitions: Target) -> None:
        """Go on with these partitions, or all, from what the group has committed, as after an abort."""
        self._core.joined_group()
        self._core.move(partitions, AT_COMMITTED)

    def pause(self, *partitions: Target) -> None:
        """Hand out nothing of these partitions, or of all, until `resume`."""
        self._core.fetcher.pause(partitions or self._core.assigned(), is_paused=True)

    def resume(self, *partitions: Target) -> None:
        """Hand out these partitions, or all, again."""
        self._core.fetcher.pause(partitions or self._core.assigned(), is_paused=False)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._core.assigned(only_paused=True)

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that this partition will hand out."""
        self._start()
        timeout_s = self._settings.default_api_timeout_ms / 1000
        if not self._core.fetcher.wait_for_place((topic, partition), timeout_s):
            raise RequestTimeout(f"the position of {topic}-{partition} was not found within default_api_timeout_ms")
        return self._core.known_position((topic, partition)) or 0

    def lag(self) -> dict[TopicPartition, int | None]:
        """How many offsets each partition is behind what may be read, as its last fetch told; None before the first.

        What `max(consumer.lag().values())` gives is Kafka's `records-lag-max` at the moment.
        """
        return self._core.lags()

    # --- reading

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        if self._group is not None:
            self._come_back()
        while (record := self._records.next()) is None:
            if (chunk := self._take(None)) is not None:
                self._records.add(chunk)
        return record

    def poll(self, timeout_s: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """What is there, or what arrives within the time: at most `max_poll_records` records, perhaps none."""
        limit = max_records or self._settings.max_poll_records
        if self._group is not None:
            self._come_back()
        found = self._records.take(limit)
        while len(found) < limit:
            # With records in hand there is no waiting, no error and no coming back to the group: they would be lost.
            chunk = self._core.fetcher.take_ready() if found else self._take(timeout_s)
            if chunk is None:
                break
            self._records.add(chunk)
            found += self._records.take(limit - len(found))
        return found

    def batches(
        self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None
    ) -> Generator["pa.RecordBatch", None, None]:
        """What arrives as `pyarrow.RecordBatch`, each of one partition, without an object for each record.

        `columns` chooses among key, value, topic, partition, offset, timestamp, timestampType and
        headers; those left out cost nothing. The iteration ends when nothing has arrived for `timeout_s`.
        """
        return self._batches(check_columns(columns), timeout_s)

    def _batches(self, columns: tuple[str, ...], timeout_s: float | None) -> Generator["pa.RecordBatch", None, None]:
        self._records.put_back()
        while (chunk := self._take(timeout_s)) is not None:
            try:
                for batch in self._core.columns(chunk, columns):
                    yield batch
                    if self._group is not None:
                        self._come_back()
            except GeneratorExit:
                self._core.fetcher.rewind(chunk.state, chunk.generation)  # the caller has had enough for now
                raise

    # --- how far the group has read

    def commit(self, what: Committable | None = None) -> None:
        """Store how far the group has read, and wait until that is done.

        Nothing named, it is everything that was handed out; else a record or a batch, with all before it
        in its partition, or next offsets by (topic, partition). Raises `CommitFailed` when the group has
        gone on without this consumer, and `ApiError` for what a broker refuses.
        """
        self._start()
        self._thread.call(self._core.joined_group().commit(self._core.offsets_to_commit(what)))

    def commit_async(self, what: Committable | None = None) -> Future[None]:
        """As `commit`, without waiting: the future tells. Commits are stored in the order of these calls."""
        self._start()
        return self._thread.begin(self._core.joined_group().commit(self._core.offsets_to_commit(what)))

    def committed(self, partitions: Iterable[Target] | None = None) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions, or for those assigned; None where it has nothing."""
        self._start()
        wanted = [TopicPartition(*target) for target in (self.assignment() if partitions is None else partitions)]
        found = self._thread.call(self._core.joined_group().committed(wanted))
        return {target: found.get(target) for target in wanted}

    def group_metadata(self) -> GroupMetadata:
        """This member of its group, for a producer that commits the group's offsets in its transaction."""
        return self._core.joined_group().metadata()

    # --- asking

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions; raises `ApiError` for one that is not there."""
        return self._thread.call(self._core.partitions_of(topic))

    def beginning_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition."""
        return self._thread.call(self._core.find_bounds(list(partitions), is_end=False))

    def end_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that the isolation level lets be read."""
        return self._thread.call(self._core.find_bounds(list(partitions), is_end=True))

    def offsets_for_times(self, times: Mapping[Target, int | datetime]) -> dict[TopicPartition, OffsetAt | None]:
        """The first record of each partition that is as young as its time; None where there is none.

        Times are milliseconds since 1970 or datetimes.
        """
        return self._thread.call(self._core.find_times(read_times(times)))

    def close(self) -> None:
        """Stop reading and free everything, in a group after a last automatic commit. Closing twice does nothing."""
        self._close(commits=True)

    # --- inside

    def _close(self, *, commits: bool) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._group is not None and self._core.is_started:
                self._leave(commits=commits)  # its callback may still commit
        finally:
            self._is_closed = True
            self._thread.call(self._core.close())
            self._thread.close()

    def _start(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if not self._core.is_started:
            self._thread.call(self._core.start())

    def _take(self, timeout_s: float | None) -> Chunk | None:
        """What arrives within the time, or None."""
        if not self._core.is_started or self._is_closed:
            self._start()
        group, fetcher = self._group, self._core.fetcher
        if group is None:
            return fetcher.wait(timeout_s)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._come_back()
            group.is_waiting = True
            try:
                chunk = fetcher.wait(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            finally:
                group.read_at_s = time.monotonic()
                group.is_waiting = False
            if chunk is not None:
                return chunk
            if deadline_s is not None and time.monotonic() >= deadline_s and not fetcher.has_notice:
                return None

    # --- in a group

    def _come_back(self) -> None:
        """Everything handed out is done with: what was due to be committed is, and the group's steps are taken."""
        group = self._group
        if group is None:
            return
        group.read_at_s = time.monotonic()
        while self._core.fetcher.has_notice:
            step = self._thread.call(group.begin_step())
            if step is not None:
                self._run_step(step)

    def _run_step(self, step: Step) -> None:
        group = self._core.joined_group()
        try:
            self._core.listener.call(step)
        finally:
            self._thread.call(group.end_step(step))

    def _leave(self, *, commits: bool) -> None:
        group = self._core.joined_group()
        step = self._thread.call(group.begin_leaving(commits=commits))
        try:
            if step is not None:
                self._run_step(step)
        finally:
            self._thread.call(group.end_leaving())
