"""The consumer for asyncio: the same core on the caller's own loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
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
from runnel.client.offset import OffsetAt
from runnel.client.place import AT_COMMITTED, AT_EARLIEST, AT_LATEST, PlaceName, read_place
from runnel.client.rebalance import RebalanceCallback, RebalanceListener
from runnel.client.setting import SettingValue
from runnel.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer:
    """Reads records from topics, one by one or as Arrow record batches, on one event loop.

        async with runnel.aio.Consumer("localhost:9092").subscribe("page_views") as consumer:
            async for record in consumer:
                print(record.key, record.value)

    Settings and meaning are those of `runnel.Consumer`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        self._settings = ConsumerSettings(bootstrap_servers, config, settings)
        self._core = ConsumerCore(self._settings)
        self._group = self._core.group
        self._core.fetcher.on_arrival = self._on_arrival
        self._records = RecordQueue(self._core)
        self._arrived = asyncio.Event()
        self._is_closing = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self._core.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(commits=error is None)

    # --- what to read

    def subscribe(
        self,
        topics: Subscription,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> Self:
        """Read topics, as `runnel.Consumer.subscribe`; callbacks may be coroutine functions."""
        self._core.subscribe(topics, RebalanceListener(on_assigned, on_revoked, on_lost))
        if self._group is None:
            self._records.clear()
        return self

    async def unsubscribe(self) -> None:
        """Leave the group, after a last automatic commit; and read nothing any more."""
        if self._group is not None and self._core.is_started:
            await self._leave(commits=True)
        self._core.forget()
        self._records.clear()

    def assign(self, partitions: Iterable[Assignable]) -> Self:
        """Read these partitions: (topic, partition), or (topic, partition, start) as in `runnel.Consumer.assign`."""
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
        self._arrived.set()

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._core.assigned(only_paused=True)

    async def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that this partition will hand out."""
        await self._core.start()
        try:
            async with asyncio.timeout(self._settings.default_api_timeout_ms / 1000):
                while (position := self._core.known_position((topic, partition))) is None:
                    await self._wait()
        except TimeoutError:
            text = f"the position of {topic}-{partition} was not found within default_api_timeout_ms"
            raise RequestTimeout(text) from None
        return position

    def lag(self) -> dict[TopicPartition, int | None]:
        """How many offsets each partition is behind what may be read, as its last fetch told; None before the first."""
        return self._core.lags()

    # --- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if self._group is not None:
            await self._come_back()
        while (record := self._records.next()) is None:
            if (chunk := await self._take(None)) is not None:
                self._records.add(chunk)
        return record

    async def poll(self, timeout_s: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """What is there, or what arrives within the time: at most `max_poll_records` records, perhaps none."""
        limit = max_records or self._settings.max_poll_records
        if self._group is not None:
            await self._come_back()
        found = self._records.take(limit)
        while len(found) < limit:
            # With records in hand there is no waiting, no error and no coming back to the group: they would be lost.
            chunk = self._core.fetcher.take_ready() if found else await self._take(timeout_s)
            if chunk is None:
                break
            self._records.add(chunk)
            found += self._records.take(limit - len(found))
        return found

    def batches(
        self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None
    ) -> AsyncGenerator["pa.RecordBatch", None]:
        """What arrives as `pyarrow.RecordBatch`, as `runnel.Consumer.batches`; decoded in a thread."""
        return self._batches(check_columns(columns), timeout_s)

    async def _batches(
        self, columns: tuple[str, ...], timeout_s: float | None
    ) -> AsyncGenerator["pa.RecordBatch", None]:
        loop = asyncio.get_running_loop()
        self._records.put_back()
        while (chunk := await self._take(timeout_s)) is not None:
            parts = self._core.columns(chunk, columns)
            position = chunk.state.position
            try:
                while True:
                    decoding = loop.run_in_executor(None, next, parts, None)
                    try:
                        batch = await asyncio.shield(decoding)
                    except asyncio.CancelledError:
                        await asyncio.wait([decoding])  # the thread would move the position after us
                        chunk.state.position = position
                        raise
                    if batch is None:
                        break
                    position = chunk.state.position
                    yield batch
                    if self._group is not None:
                        await self._come_back()
            except (GeneratorExit, asyncio.CancelledError):
                self._core.fetcher.rewind(chunk.state, chunk.generation)
                raise

    # --- how far the group has read

    async def commit(self, what: Committable | None = None) -> None:
        """Store how far the group has read, as `runnel.Consumer.commit`."""
        await self._start()
        await self._core.joined_group().commit(self._core.offsets_to_commit(what))

    def commit_async(self, what: Committable | None = None) -> "asyncio.Task[None]":
        """As `commit`, without waiting: the task tells. Commits are stored in the order of these calls."""
        return asyncio.get_running_loop().create_task(
            self._core.joined_group().commit(self._core.offsets_to_commit(what))
        )

    async def committed(
        self, partitions: Iterable[Target] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions, or for those assigned; None where it has nothing."""
        await self._start()
        wanted = [TopicPartition(*target) for target in (self.assignment() if partitions is None else partitions)]
        found = await self._core.joined_group().committed(wanted)
        return {target: found.get(target) for target in wanted}

    def group_metadata(self) -> GroupMetadata:
        """This member of its group, for a producer that commits the group's offsets in its transaction."""
        return self._core.joined_group().metadata()

    # --- asking

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions; raises `ApiError` for one that is not there."""
        return await self._core.partitions_of(topic)

    async def beginning_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition."""
        return await self._core.find_bounds(partitions, is_end=False)

    async def end_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that the isolation level lets be read."""
        return await self._core.find_bounds(partitions, is_end=True)

    async def offsets_for_times(self, times: Mapping[Target, int | datetime]) -> dict[TopicPartition, OffsetAt | None]:
        """The first record of each partition that is as young as its time; None where there is none."""
        return await self._core.find_times(read_times(times))

    async def close(self) -> None:
        """Stop reading and close every connection, in a group after a last automatic commit. Twice does nothing."""
        await self._close(commits=True)

    # --- inside

    async def _close(self, *, commits: bool) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._group is not None and self._core.is_started:
                await self._leave(commits=commits)  # its callback may still commit
        finally:
            self._is_closed = True
            await self._core.close()

    async def _start(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        await self._core.start()

    async def _take(self, timeout_s: float | None) -> Chunk | None:
        """What arrives within the time, or None."""
        await self._start()
        group = self._group
        loop = asyncio.get_running_loop()
        deadline_s = None if timeout_s is None else loop.time() + timeout_s
        while True:
            if group is not None:
                await self._come_back()
                group.is_waiting = True
            try:
                async with asyncio.timeout_at(deadline_s):
                    while (chunk := self._core.fetcher.take()) is None:
                        if group is not None and self._core.fetcher.has_notice:
                            break
                        await self._wait()
            except TimeoutError:
                return None
            finally:
                if group is not None:
                    group.read_at_s = time.monotonic()
                    group.is_waiting = False
            if chunk is not None:
                return chunk

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _on_arrival(self) -> None:
        self._arrived.set()

    # --- in a group

    async def _come_back(self) -> None:
        """Everything handed out is done with: what was due to be committed is, and the group's steps are taken."""
        group = self._core.joined_group()
        group.read_at_s = time.monotonic()
        while self._core.fetcher.has_notice:
            step = await group.begin_step()
            if step is not None:
                await self._run_step(step)

    async def _run_step(self, step: Step) -> None:
        try:
            answer = self._core.listener.call(step)
            if answer is not None:
                await answer
        finally:
            await self._core.joined_group().end_step(step)

    async def _leave(self, *, commits: bool) -> None:
        group = self._core.joined_group()
        step = await group.begin_leaving(commits=commits)
        try:
            if step is not None:
                await self._run_step(step)
        finally:
            await group.end_leaving()
