"""The fetcher of one range of offsets, one fetch ahead of decoding."""

import asyncio

from tailrace.base.invariant import invariant
from tailrace.client.backoff import Deadline
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.client.fetch.request import Fetched, FetchOptions, build_fetch, fetch_version_max, read_fetched
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import FetchResponse
from tailrace.spark.plan import OffsetRange

LANE = "spark"
"""The connections of a worker, kept between micro-batches. A Python worker runs one task at a time."""


class OutOfRange(Exception):
    """The log does not have the offset."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"offset {offset} is out of range")
        self.offset = offset


class NothingArrived(Exception):
    """No record of the range arrived in time."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"no record arrived at offset {offset}")
        self.offset = offset


class RangeFetch:
    """Fetches the batches of a range, in order."""

    def __init__(self, cluster: Cluster, wanted: OffsetRange, options: FetchOptions, timeout_ms: int) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._options = options
        self._timeout_ms = timeout_ms
        self._offset = wanted.start
        self._next: asyncio.Task[Fetched] | None = None

    async def next(self) -> Fetched | None:
        """Return the next fetched data and start the following fetch; None at the end of the range.

        Raises `OutOfRange`, `NothingArrived`, or the error of a broker or its connection.
        """
        if self._offset >= self._wanted.end:
            return None
        fetched = await (self._next or self._start())
        self._offset = fetched.next_offset
        self._next = self._start() if self._offset < self._wanted.end else None
        return fetched

    def start(self) -> None:
        """Start the first fetch, before `next` waits for it."""
        if self._next is None and self._offset < self._wanted.end:
            self._next = self._start()

    def seek(self, offset: int) -> None:
        """Continue from another offset."""
        self.stop()
        self._offset = offset

    def stop(self) -> None:
        """Cancel the pending fetch. An error of it no longer matters."""
        if self._next is not None:
            self._next.add_done_callback(lambda fetch: fetch.cancelled() or fetch.exception())
            self._next.cancel()
            self._next = None

    def _start(self) -> asyncio.Task[Fetched]:
        return asyncio.get_running_loop().create_task(self._fetch(self._offset))

    async def _fetch(self, offset: int) -> Fetched:
        deadline = Deadline(self._timeout_ms)
        while True:
            fetched = await self._cluster.retry(lambda: self._fetch_once(offset), timeout_ms=deadline.left_s * 1000)
            if fetched is not None:
                return fetched
            if deadline.is_over:
                raise NothingArrived(offset)

    async def _fetch_once(self, offset: int) -> Fetched | None:
        try:
            leader_id = await self._cluster.leader_id(self._wanted.topic, self._wanted.partition)
            return await self._ask(leader_id, offset)
        except (ApiError, BrokerUnavailable, RequestTimeout) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OutOfRange(offset) from None
            self._cluster.forget(self._wanted.topic)  # the leader may have changed
            raise

    async def _ask(self, leader_id: int, offset: int) -> Fetched | None:
        topic = self._cluster.view.topics[self._wanted.topic]
        connection = await self._cluster.connection(leader_id, lane=LANE)
        reply = await connection.request(
            build_fetch(topic, {self._wanted.partition: offset}, self._options),
            FetchResponse,
            version_max=fetch_version_max(topic),
            timeout_ms=self._cluster.request_timeout_ms + self._options.max_wait_ms,
        )
        answers = [partition for item in reply.responses for partition in item.partitions]
        for code in (reply.error_code, *(answer.error_code for answer in answers)):
            if code:
                raise ApiError(ErrorCode(code), f"reading {self._wanted.topic}-{self._wanted.partition}")
        invariant(len(answers) <= 1, "one partition was requested")
        return read_fetched(self._wanted.topic, offset, answers[0]) if answers else None
