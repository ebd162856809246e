"""The consumer for asyncio: the same core on the caller's own loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

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
from runnel.client.error import ClientClosed, RequestTimeout
from runnel.client.fetcher import Chunk
from runnel.client.offset import OffsetAt
from runnel.client.place import AT_EARLIEST, AT_LATEST, PlaceName, read_place
from runnel.client.setting import ConsumerSettings, SettingValue
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
        self._core.fetcher.on_arrival = self._on_arrival
        self._records = RecordQueue(self._core)
        self._arrived = asyncio.Event()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self._core.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- what to read

    def subscribe(self, topics: Subscription) -> Self:
        """Read every partition of a topic, of several, or of those whose whole names match a compiled pattern."""
        self._core.subscribe(topics)
        self._records.clear()
        return self

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

    # --- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while (record := self._records.next()) is None:
            if (chunk := await self._take(None)) is not None:
                self._records.add(chunk)
        return record

    async def poll(self, timeout_s: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """What is there, or what arrives within the time: at most `max_poll_records` records, perhaps none."""
        limit = max_records or self._settings.max_poll_records
        found = self._records.take(limit)
        while len(found) < limit and (chunk := await self._take(0.0 if found else timeout_s)) is not None:
            self._records.add(chunk)
            found += self._records.take(limit - len(found))
        return found

    def batches(
        self, columns: Sequence[str] | None = None, *, timeout_s: float | None = None
    ) -> AsyncIterator["pa.RecordBatch"]:
        """What arrives as `pyarrow.RecordBatch`, as `runnel.Consumer.batches`; decoded in a thread."""
        return self._batches(check_columns(columns), timeout_s)

    async def _batches(self, columns: tuple[str, ...], timeout_s: float | None) -> AsyncIterator["pa.RecordBatch"]:
        loop = asyncio.get_running_loop()
        while (chunk := await self._take(timeout_s)) is not None:
            parts = self._core.columns(chunk, columns)
            while (batch := await loop.run_in_executor(None, next, parts, None)) is not None:
                yield batch

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
        """Stop reading and close every connection. Closing twice does nothing."""
        if not self._is_closed:
            self._is_closed = True
            await self._core.close()

    # --- waiting

    async def _take(self, timeout_s: float | None) -> Chunk | None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        await self._core.start()
        try:
            async with asyncio.timeout(timeout_s):
                while (chunk := self._core.fetcher.take()) is None:
                    await self._wait()
        except TimeoutError:
            return None
        return chunk

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _on_arrival(self) -> None:
        self._arrived.set()
