"""What a fetch found in a partition, and the bytes of it: from the page cache at once, or from the disk aside."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from tailrace.base.limits import FETCH_WAIT_MS_MAX
from tailrace.base.sentinel import NO_OFFSET
from tailrace.machines.fetch_session import FetchContext, FetchPartition, Key
from tailrace.machines.replica.epoch import find_divergence
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponseEpochEndOffset,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tailrace.runtime.fetch_wait import FetchWait
from tailrace.runtime.partition import Partition
from tailrace.server.context import RequestContext
from tailrace.storage.error import StorageError
from tailrace.storage.file_range import EMPTY_RANGE, FileRange

FIRST_VERSION_WITH_TOPIC_IDS = 13


class Read:
    """What a fetch reads from one partition, and the part of the reply about it."""

    __slots__ = ("asked", "partition", "range", "reply")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.partition: Partition | None = None
        self.range: FileRange = EMPTY_RANGE
        self.reply = FetchResponsePartition(
            partition_index=asked.key[1], high_watermark=-1, aborted_transactions=None, records=b""
        )

    def refuse(self, code: ErrorCode) -> None:
        self.reply = FetchResponsePartition(
            partition_index=self.asked.key[1],
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        self.range = EMPTY_RANGE

    @property
    def is_urgent(self) -> bool:
        """Whether the reader must be told at once, without a long poll."""
        reply = self.reply
        return reply.error_code != 0 or reply.diverging_epoch is not None or reply.preferred_read_replica >= 0

    @property
    def is_news(self) -> bool:
        """Whether an incremental reply names it."""
        reply = self.reply
        return (
            self.asked.has_news(reply.error_code, self.range.size_bytes, reply.high_watermark, reply.log_start_offset)
            or reply.diverging_epoch is not None
            or reply.preferred_read_replica >= 0
        )

    def told(self) -> None:
        """Let the session remember what the reply says; a follower that has to truncate its log takes in no offsets."""
        reply = self.reply
        is_taken_in = reply.diverging_epoch is None
        offsets = (reply.high_watermark, reply.log_start_offset) if is_taken_in else (NO_OFFSET, NO_OFFSET)
        self.asked.told(reply.error_code, *offsets)


Locate = Callable[[Read, int, bool], None]
"""Finds the range of one read, within so many bytes, of which one batch may be larger if nothing was found before."""

Sleep = Callable[[FetchWait, float], Awaitable[object]]
"""Sleeps until a wait is over, for so many seconds at most."""


def locate_all(
    ctx: RequestContext, request: FetchRequest, partitions: Iterable[FetchPartition], locate: Locate
) -> list[Read]:
    """Find the bytes for each partition, within the limits of partition and request (KIP-74)."""
    reads = []
    left_bytes = reply_bytes_max(ctx, request)
    nothing_yet = True
    for asked in partitions:
        read = Read(asked)
        reads.append(read)
        try:
            locate(read, left_bytes, nothing_yet)
        except ApiError as error:
            read.refuse(error.code)
            if error.code is ErrorCode.CORRUPT_MESSAGE and read.partition is not None:
                now_ms = ctx.broker.clock.now_ms()
                ctx.rejections.add_damaged(now_ms, ctx.connection.peer, read.partition.name, error)
        except StorageError:
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        if read.range.size_bytes:
            nothing_yet = False
            left_bytes = max(0, left_bytes - read.range.size_bytes)
    return reads


async def poll(
    ctx: RequestContext, request: FetchRequest, reads: list[Read], locate_again: Callable[[], list[Read]], sleep: Sleep
) -> list[Read]:
    """Return `reads` if they are enough for the reader, else what is there once enough has come or the time is over."""
    # A reply that is full cannot get fuller, whatever was asked for.
    enough_bytes = min(request.min_bytes, reply_bytes_max(ctx, request))
    missing_bytes = enough_bytes - sum(read.range.size_bytes for read in reads)
    if missing_bytes <= 0 or request.max_wait_ms <= 0 or any(read.is_urgent for read in reads):
        return reads
    wait = FetchWait(missing_bytes)
    ctx.connection.when_ending(wait.disturbed)
    await sleep(wait, min(request.max_wait_ms, FETCH_WAIT_MS_MAX) / 1000)
    return locate_again()


def select_named(context: FetchContext, reads: list[Read]) -> list[Read]:
    """Return the reads that the reply names, all or those with news, and have the session remember them."""
    found = [read for read in reads if read.is_news] if context.incremental else reads
    for read in found:
        read.told()
    return found


async def read_all(ctx: RequestContext, reads: Sequence[Read]) -> None:
    """Read the located ranges; a worker thread reads those that are not in the page cache."""
    cold = [read for read in reads if read.range.size_bytes and not _read_cached(read)]
    if cold:
        await asyncio.get_running_loop().run_in_executor(ctx.broker.worker, _read_from_disk, cold)


def _read_cached(read: Read) -> bool:
    try:
        read.reply.records = read.range.read_cached()
    except StorageError:
        read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    return read.reply.records is not None


def _read_from_disk(reads: Sequence[Read]) -> None:
    for read in reads:
        try:
            read.reply.records = read.range.read()
        except StorageError:
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)


def by_topic(ctx: RequestContext, reads: Sequence[Read]) -> list[FetchResponseTopic]:
    """Return the parts of the reply, grouped by topic."""
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: dict[object, FetchResponseTopic] = {}
    for read in reads:
        topic = read.asked.key[0]
        reply = topics.get(topic)
        if reply is None:
            reply = FetchResponseTopic(topic_id=topic) if by_id else FetchResponseTopic(topic=topic)  # type: ignore[arg-type]
            topics[topic] = reply
        reply.partitions.append(read.reply)
    return list(topics.values())


def topic_partition(ctx: RequestContext, key: Key) -> tuple[str, int]:
    """Return the topic name and the partition of a key, whose topic may be given by name or by id."""
    topic, index = key
    if isinstance(topic, UUID):
        known = ctx.broker.image.topics_by_id.get(topic)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return known.name, index
    return str(topic), index


def reply_bytes_max(ctx: RequestContext, request: FetchRequest) -> int:
    """Return how many bytes of records a reply may hold; its first batch may be larger."""
    size_bytes = min(request.max_bytes, ctx.broker.config.fetch_max_bytes, ctx.connection.reply_bytes_max)
    return size_bytes if ctx.quota is None else min(size_bytes, ctx.quota.fetch_bytes_max())


def diverges(partition: Partition, wanted: FetchRequestPartition, reply: FetchResponsePartition) -> bool:
    """Whether the reader's log is not a prefix of this one (KIP-595)."""
    diverging = find_divergence(partition.log, partition.leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch)
    if diverging is None:
        return False
    if wanted.fetch_offset < partition.log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, "the log starts after the end of the reader's log")
    reply.diverging_epoch = FetchResponseEpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
    return True
