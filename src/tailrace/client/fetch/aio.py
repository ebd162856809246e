"""The consumer for asyncio, on the caller's own event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tailrace.client.error import ClientClosed, RequestTimeout
from tailrace.client.fetch.core import ConsumerCore, RecordQueue, Target, check_columns, read_times
from tailrace.client.fetch.face import ConsumerFace
from tailrace.client.fetch.queue import Chunk
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.group.committable import Committable
from tailrace.client.group.member import Step
from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.offset import OffsetAt
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.error import RecordError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Consumer(ConsumerFace):
    """Reads records from topics, one by one or as Arrow record batches, on one event loop.

        async with tailrace.aio.Consumer("localhost:9092").subscribe("page_views") as consumer:
            async for record in consumer:
                print(record.key, record.value)

    Settings and meaning are those of `tailrace.Consumer`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        self._settings = ConsumerSettings(bootstrap_servers, config, settings)
        core = ConsumerCore(self._settings)
        super().__init__(core, RecordQueue(core))
        self._fetcher.on_arrival = self._on_arrival
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

    async def unsubscribe(self) -> None:
        """Leave the group after a last automatic commit, and read nothing any more."""
        if self._group is not None and self._core.is_started:
            await self._leave(commits=True)
        self._core.forget()
        self._records.clear()

    def resume(self, *partitions: Target) -> None:
        """Return records of these partitions, or of all, again."""
        super().resume(*partitions)
        self._arrived.set()

    async def position(self, topic: str, partition: int) -> int:
        """Return the offset of the next record that this partition will return."""
        await self._start()
        timeout_s = self._settings.default_api_timeout_ms / 1000
        if not await self._wait_for_place((topic, partition), timeout_s):
            raise RequestTimeout(f"the position of {topic}-{partition} was not found within default_api_timeout_ms")
        return self._core.known_position((topic, partition)) or 0

    # --- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while (record := self._next_ready()) is None:
            if self._group is not None and self._fetcher.has_notice:
                await self._return_to_group()
            elif (chunk := await self._take(None)) is not None:
                self._records.add(chunk)
        return record

    async def poll(self, timeout_s: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return the records at hand, or those that arrive within the time: at most `max_poll_records`, or none."""
        limit = max_records or self._settings.max_poll_records
        if self._group is not None:
            await self._return_to_group()
        found = self._records.take(limit)
        while len(found) < limit:
            # With records in hand it must not wait, raise or take a step of the group: the records would be lost.
            chunk = self._fetcher.take_ready() if found else await self._take(timeout_s)
            if chunk is None:
                break
            self._records.add(chunk)
            found += self._records.take(limit - len(found))
        return found

    def batches(
        self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None
    ) -> AsyncGenerator["pa.RecordBatch", None]:
        """Iterate over `pyarrow.RecordBatch`, as `tailrace.Consumer.batches` does; a thread decodes them."""
        return self._batches(check_columns(columns), timeout_s)

    async def _batches(
        self, columns: tuple[str, ...], timeout_s: float | None
    ) -> AsyncGenerator["pa.RecordBatch", None]:
        self._records.put_back()
        while (chunk := await self._take(timeout_s)) is not None:
            batches = self._core.columns(chunk, columns)
            try:
                while (batch := await self._decode(batches, chunk)) is not None:
                    yield batch
                    if self._group is not None:
                        await self._return_to_group()
            except RecordError:  # the chunk is condemned: its partition does not go on
                raise
            except BaseException:  # a callback may raise, and the reader may be cancelled or end early
                self._fetcher.rewind(chunk.state, chunk.generation)
                raise

    # --- offsets of the group

    async def commit(self, what: Committable | None = None) -> None:
        """Commit how far the group has read, and wait until the coordinator has stored it.

        Without an argument everything that was returned is committed; otherwise a record or a batch, with all before
        it in its partition, or next offsets by (topic, partition). Raises `CommitFailed` if the group has excluded
        this consumer, and `ApiError` if a broker rejects the commit.
        """
        await self._start()
        await self._on_loop(self._core.joined_group().commit(self._core.offsets_to_commit(what)))

    def commit_async(self, what: Committable | None = None) -> "asyncio.Task[None]":
        """Commit without waiting, and return a task for the outcome. Commits are stored in the order of these calls."""
        return asyncio.get_running_loop().create_task(
            self._core.joined_group().commit(self._core.offsets_to_commit(what))
        )

    async def committed(
        self, partitions: Iterable[Target] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for these partitions, or those assigned; None for one without."""
        await self._start()
        wanted = [TopicPartition(*target) for target in (self.assignment() if partitions is None else partitions)]
        found = await self._on_loop(self._core.joined_group().committed(wanted))
        return {target: found.get(target) for target in wanted}

    # --- offsets of the log

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions; raises `ApiError` if the topic does not exist."""
        return await self._on_loop(self._core.partitions_of(topic))

    async def beginning_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition."""
        return await self._on_loop(self._core.find_bounds(list(partitions), is_end=False))

    async def end_offsets(self, partitions: Iterable[Target]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that the isolation level allows to read."""
        return await self._on_loop(self._core.find_bounds(list(partitions), is_end=True))

    async def offsets_for_times(self, times: Mapping[Target, int | datetime]) -> dict[TopicPartition, OffsetAt | None]:
        """Return the first record of each partition that is not older than its time; None if there is none.

        Times are milliseconds since 1970 or datetimes.
        """
        return await self._on_loop(self._core.find_times(read_times(times)))

    async def close(self) -> None:
        """Stop reading and close every connection, in a group after a last automatic commit. Twice does nothing."""
        await self._close(commits=True)

    async def _close(self, *, commits: bool) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._group is not None and self._core.is_started:
                await self._leave(commits=commits)  # its callback may still commit
        finally:
            self._is_closed = True
            await self._close_core()

    # --- waits, which the synchronous consumer replaces by some that block

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the consumer's event loop."""
        return await work

    async def _wait_for_chunk(self, timeout_s: float | None) -> Chunk | None:
        """Return the chunk that arrives within the time; None after that, and if the group has a notice."""
        try:
            async with asyncio.timeout(timeout_s):
                while (chunk := self._fetcher.take()) is None and not self._fetcher.has_notice:
                    await self._wait_for_arrival()
                return chunk
        except TimeoutError:
            return None

    async def _wait_for_place(self, target: Target, timeout_s: float) -> bool:
        """Wait until the position of a partition, or what is wrong with it, is known; False after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._fetcher.has_place(target):
                    await self._wait_for_arrival()
                return True
        except TimeoutError:
            return False

    async def _decode(self, batches: Iterator["pa.RecordBatch"], chunk: Chunk) -> "pa.RecordBatch | None":
        """Decode the next record batch of a chunk in a thread; None at its end."""
        position = chunk.state.position
        decoding = asyncio.get_running_loop().run_in_executor(None, next, batches, None)
        try:
            return await asyncio.shield(decoding)
        except asyncio.CancelledError:
            await asyncio.wait([decoding])  # else the thread would move the position later
            chunk.state.position = position
            raise

    async def _close_core(self) -> None:
        await self._core.close()

    async def _wait_for_arrival(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _on_arrival(self) -> None:
        self._arrived.set()

    # --- inside

    async def _start(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if not self._core.is_started:
            await self._on_loop(self._core.start())

    async def _take(self, timeout_s: float | None) -> Chunk | None:
        """Return the chunk that arrives within the time, or None."""
        await self._start()
        group = self._group
        if group is None:
            return await self._wait_for_chunk(timeout_s)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            await self._return_to_group()
            group.is_waiting = True
            try:
                left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
                chunk = await self._wait_for_chunk(left_s)
            finally:
                group.read_at_s = time.monotonic()
                group.is_waiting = False
            if chunk is not None:
                return chunk
            if deadline_s is not None and time.monotonic() >= deadline_s and not self._fetcher.has_notice:
                return None

    # --- in a group

    async def _return_to_group(self) -> None:
        """Tell the group that the caller is done with all records, and take the steps that wait for that.

        Automatic commits that are due are part of the steps.
        """
        group = self._core.joined_group()
        group.read_at_s = time.monotonic()
        while self._fetcher.has_notice:
            step = await self._on_loop(group.begin_step())
            if step is not None:
                await self._run_step(step)

    async def _run_step(self, step: Step) -> None:
        try:
            answer = self._core.listener.call(step)
            if answer is not None:
                await answer
        finally:
            await self._on_loop(self._core.joined_group().end_step(step))

    async def _leave(self, *, commits: bool) -> None:
        group = self._core.joined_group()
        step = await self._on_loop(group.begin_leaving(commits=commits))
        try:
            if step is not None:
                await self._run_step(step)
        finally:
            await self._on_loop(group.end_leaving())
