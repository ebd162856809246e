"""Fetching one range of offsets, always one fetch ahead of whoever decodes."""

import asyncio

from runnel.base.invariant import invariant
from runnel.client.backoff import Deadline
from runnel.client.cluster import Cluster
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.client.fetch import Fetched, FetchOptions, build_fetch, fetch_version_max, read_fetched
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.fetch import FetchResponse
from runnel.spark.plan import OffsetRange

LANE = "spark"
"""The connections that are kept from one micro-batch to the next. A Python worker runs one task at a time."""


class OutOfRange(Exception):  # noqa: N818 - it says what is the matter
    """The log does not have the offset."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"offset {offset} is out of range")
        self.offset = offset


class NothingArrived(Exception):  # noqa: N818 - it says what is the matter
    """No record of the range came in time."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"nothing came at offset {offset}")
        self.offset = offset


class RangeFetch:
    """Brings the batches of a range, in order."""

    def __init__(self, cluster: Cluster, wanted: OffsetRange, options: FetchOptions, timeout_ms: int) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._options = options
        self._timeout_ms = timeout_ms
        self._offset = wanted.start
        self._next: asyncio.Task[Fetched] | None = None

    async def next(self) -> Fetched | None:
        """What comes next, while the fetch after it is started; None at the end of the range.

        Raises `OutOfRange`, `NothingArrived`, or what a broker or the connection to it has to say.
        """
        if self._offset >= self._wanted.end:
            return None
        fetched = await (self._next or self._start())
        self._offset = fetched.next_offset
        self._next = self._start() if self._offset < self._wanted.end else None
        return fetched

    def seek(self, offset: int) -> None:
        """Go on from another offset."""
        self.stop()
        self._offset = offset

    def stop(self) -> None:
        """Drop the fetch that is under way."""
        if self._next is not None:
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
            self._cluster.forget(self._wanted.topic)  # the leader may be another one by now
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
        invariant(len(answers) <= 1, "one partition was asked for")
        return read_fetched(self._wanted.topic, offset, answers[0]) if answers else None
