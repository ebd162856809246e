"""Reading records: a long poll for each leader, ahead of whoever reads, within a bound.

    async with Reader(cluster, "page_views") as reader:
        await reader.seek_to_time(EARLIEST)
        async for fetched in reader:
            for record in fetched.records(): ...

There is no group here: the caller says which partitions and from where.
"""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from runnel.base.limits import FETCH_BUFFER_BYTES_MAX
from runnel.client.backoff import Deadline
from runnel.client.cluster import Cluster
from runnel.client.error import BrokerUnavailable, ClientError, RequestTimeout
from runnel.client.fetch import Fetched, FetchOptions, build_fetch, fetch_version_max, read_fetched
from runnel.client.offset import LATEST, NOT_FOUND, list_offsets
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.fetch import FetchResponse, FetchResponsePartition


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
        """`reset` is where to go on when an offset is out of range: EARLIEST, LATEST, or None for an error."""
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._options = options or FetchOptions()
        self._reset = reset
        self._retry_timeout_ms = retry_timeout_ms
        self._positions: dict[int, int] = {}
        self._fetched: deque[Fetched] = deque()
        self._fetched_bytes = 0
        self._arrived = asyncio.Event()
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._failures: dict[int, tuple[int, Deadline]] = {}  # by leader: how many in a row, and until when
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        topic = await self._cluster.topic(self._topic)
        if self._partitions is None:
            self._partitions = range(len(topic.partitions))
        for partition in self._partitions:
            await self._cluster.leader_id(self._topic, partition)  # raises for one that is not there
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading; fetches under way are dropped."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.close_lane(self)

    # --- where to read

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that are read."""
        return self._partitions or ()

    def seek(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on. Call it before the iteration starts."""
        self._positions.update(positions)

    def position(self, partition: int) -> int:
        """The next offset to be fetched of a partition, which is ahead of what has been handed out."""
        return self._positions[partition]

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """Read every partition from a time on, or from EARLIEST or LATEST; from the end where nothing is as young."""
        self.seek(await self.find_offsets(timestamp_ms))

    async def find_offsets(self, timestamp_ms: int, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """The offset where a time begins, in all partitions or in these; EARLIEST and LATEST count as times."""
        asked = self.partitions if partitions is None else partitions
        isolation = self._options.isolation
        found = await list_offsets(self._cluster, self._topic, dict.fromkeys(asked, timestamp_ms), isolation)
        ended = [partition for partition, at in found.items() if at.offset == NOT_FOUND]
        if ended:
            found |= await list_offsets(self._cluster, self._topic, dict.fromkeys(ended, LATEST), isolation)
        return {partition: at.offset for partition, at in found.items()}

    # --- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Fetched:
        while not self._fetched:
            if self._error is not None:
                raise self._error
            self._fetch_idle()
            self._arrived.clear()
            await self._arrived.wait()
        fetched = self._fetched.popleft()
        self._fetched_bytes -= len(fetched.data)
        self._fetch_idle()
        return fetched

    def _fetch_idle(self) -> None:
        """Start a fetch for each leader of partitions that none is under way for, while there is room."""
        if self._fetched_bytes >= FETCH_BUFFER_BYTES_MAX or self._error is not None:
            return
        topic = self._cluster.view.topics[self._topic]
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in self._positions.keys() - self._in_flight.keys():
            by_leader[topic.leader_id(partition)].append(partition)
        for leader_id, partitions in by_leader.items():
            task = asyncio.get_running_loop().create_task(self._fetch(leader_id, partitions))
            self._in_flight.update(dict.fromkeys(partitions, task))

    async def _fetch(self, leader_id: int, partitions: Sequence[int]) -> None:
        """One fetch from one leader and, where it failed, the wait before the next."""
        try:
            await self._fetch_once(leader_id, partitions)
            self._failures.pop(leader_id, None)
        except (BrokerUnavailable, RequestTimeout, ApiError) as error:
            await self._recover(leader_id, error)
        except Exception as error:  # told to whoever reads, not to a task that nobody waits for
            self._error = error
        finally:
            for partition in partitions:
                del self._in_flight[partition]
            self._arrived.set()

    async def _fetch_once(self, leader_id: int, partitions: Sequence[int]) -> None:
        topic = self._cluster.view.topics[self._topic]
        offsets = {partition: self._positions[partition] for partition in sorted(partitions)}
        connection = await self._cluster.connection(leader_id, lane=self)
        reply = await connection.request(
            build_fetch(topic, offsets, self._options),
            FetchResponse,
            version_max=fetch_version_max(topic),
            timeout_ms=self._cluster.request_timeout_ms + self._options.max_wait_ms,
        )
        answers = [partition for item in reply.responses for partition in item.partitions]
        codes = [reply.error_code, *[await self._take(answer) for answer in answers]]
        if code := next(filter(None, codes), None):
            raise ApiError(ErrorCode(code), f"reading {self._topic}")

    async def _take(self, answer: FetchResponsePartition) -> int:
        """Keep what an answer brought and move on; the error code that is left to deal with, or 0."""
        partition = answer.partition_index
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._reset is not None:
            self._positions |= await self.find_offsets(self._reset, [partition])
            return ErrorCode.NONE
        if answer.error_code:
            return answer.error_code
        fetched = read_fetched(self._topic, self._positions[partition], answer)
        if fetched is not None:
            self._positions[partition] = fetched.next_offset
            self._fetched.append(fetched)
            self._fetched_bytes += len(fetched.data)
            self._arrived.set()
        return ErrorCode.NONE

    async def _recover(self, leader_id: int, error: ClientError | ApiError) -> None:
        """Wait and look for the leaders anew, or give up."""
        failure_count, deadline = self._failures.get(leader_id, (0, Deadline(self._retry_timeout_ms)))
        self._failures[leader_id] = (failure_count + 1, deadline)
        if deadline.is_over or (isinstance(error, ApiError) and not error.code.retriable):
            self._error = error
            return
        await asyncio.sleep(self._cluster.backoff.wait_s(failure_count + 1))
        with contextlib.suppress(ClientError, ApiError, RemoteProtocolError):
            await self._cluster.refresh([self._topic])
