"""A reader of one topic that returns whole fetches instead of records: for the command line, tests and the demo.

    async with Reader(cluster, "page_views") as reader:
        await reader.seek_to_time(EARLIEST)
        async for fetched in reader:
            for record in fetched.records(): ...

It is the consumer's fetcher on a cluster of the caller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.fetcher import Fetcher
from tailrace.client.fetch.request import Fetched, FetchOptions
from tailrace.client.offset import find_offsets
from tailrace.client.place import Place
from tailrace.client.topic_partition import TopicPartition

_METADATA_MAX_AGE_S = 300.0


class Reader:
    """Reads some or all partitions of a topic. Use it as an async context manager and an async iterator."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        options: FetchOptions | None = None,
        reset: int | None = None,
        retry_timeout_ms: int = 60_000,
    ) -> None:
        """`reset` is where to continue if an offset is out of range: EARLIEST, LATEST, or None for an error."""
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._options = options or FetchOptions()
        self._fetcher = Fetcher(
            cluster,
            self._options,
            reset=None if reset is None else Place(None, reset),
            api_timeout_ms=retry_timeout_ms,
            metadata_max_age_s=_METADATA_MAX_AGE_S,
        )
        self._arrived = asyncio.Event()
        self._fetcher.on_arrival = self._arrived.set

    async def __aenter__(self) -> Self:
        topic = await self._cluster.topic(self._topic)
        if self._partitions is None:
            self._partitions = range(len(topic.partitions))
        for partition in self._partitions:
            await self._cluster.leader_id(self._topic, partition)  # raises if the partition does not exist
        self._fetcher.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading; fetches in flight are dropped."""
        await self._fetcher.close()

    # --- where to read

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that are read."""
        return self._partitions or ()

    def seek(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self._fetcher.add_or_move(
            {TopicPartition(self._topic, partition): Place(offset) for partition, offset in positions.items()}
        )

    def position(self, partition: int) -> int:
        """Return the next offset to fetch of a partition, which is ahead of the data that was returned."""
        return self._fetcher.assignment.find((self._topic, partition)).fetch_offset

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """Read every partition from a time, EARLIEST or LATEST; from the end if no record is that recent."""
        self.seek(await self.find_offsets(timestamp_ms))

    async def find_offsets(self, timestamp_ms: int, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """Return the first offset at or after a time in all or these partitions; EARLIEST and LATEST count as times."""
        asked = self.partitions if partitions is None else partitions
        isolation = self._options.isolation
        return await find_offsets(self._cluster, self._topic, dict.fromkeys(asked, timestamp_ms), isolation)

    # --- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Fetched:
        while (chunk := self._fetcher.take()) is None:
            self._arrived.clear()
            await self._arrived.wait()
        return chunk.fetched
