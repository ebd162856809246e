"""Fetch: the bytes of the log, as they are, to those who ask and to those who wait.

The way of a request: open or continue the session, locate the ranges of bytes, wait if they
are too few, read them, and name the partitions that have news. Bytes that lie in the page
cache are read on the event loop; bytes that need the disk are read in a worker thread, so
that a reader of old data delays nobody else.
"""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from runnel.base.limits import FETCH_WAIT_MS_MAX
from runnel.machines.fetch_session import FetchContext, FetchPartition, Key
from runnel.machines.replica.epoch import find_divergence
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponsePartition,
    FetchResponseTopic,
)
from runnel.runtime.fetch_wait import FetchWait
from runnel.runtime.partition import Partition
from runnel.server.api import api
from runnel.server.context import Operation, RequestContext, Resource
from runnel.server.handlers.replica_fetch import Follower, check_consumer, follower_of, nearer_replica
from runnel.storage.error import StorageError
from runnel.storage.file_range import EMPTY_RANGE, FileRange

READ_COMMITTED = 1
FIRST_VERSION_WITH_TOPIC_IDS = 13


class _Read:
    """What was found for one partition."""

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


def fail(ctx: RequestContext, request: FetchRequest, error: ApiError) -> FetchResponse:
    if ctx.version >= 7:
        return FetchResponse(error_code=error.code)
    reads = [_Read(asked) for asked in _asked(ctx, request)]
    for read in reads:
        read.refuse(error.code)
    return FetchResponse(responses=_by_topic(ctx, reads))


@api(FetchRequest, versions=(4, 18), fail=fail)
async def fetch(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Serve a consumer or a follower."""
    follower = follower_of(ctx, request)
    context = ctx.broker.fetch_sessions.begin(
        ctx.broker.clock.monotonic_ms(),
        request.session_id,
        request.session_epoch,
        _asked(ctx, request),
        _forgotten(ctx, request),
        ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS,
    )
    reads = _locate_all(ctx, request, context.partitions, follower)
    if follower is not None:
        _note_progress(follower, reads)
    # A reply that is full cannot get fuller, whatever was asked for.
    enough_bytes = min(request.min_bytes, _reply_bytes_max(ctx, request))
    missing_bytes = enough_bytes - sum(read.range.size_bytes for read in reads)
    if missing_bytes > 0 and request.max_wait_ms > 0 and reads and not any(map(_is_urgent, reads)):
        partitions = [read.partition for read in reads if read.partition is not None]
        wait = FetchWait(missing_bytes)
        ctx.connection.when_ending(wait.disturbed)
        wait_s = min(request.max_wait_ms, FETCH_WAIT_MS_MAX) / 1000
        await wait.wait(partitions, wait_s, for_end=follower is not None)
        reads = _locate_all(ctx, request, context.partitions, follower)
    await _read_all(ctx, reads)
    return FetchResponse(session_id=context.session_id, responses=_by_topic(ctx, _with_news(context, reads)))


def _asked(ctx: RequestContext, request: FetchRequest) -> list[FetchPartition]:
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    wanted = {
        (topic.topic_id if by_id else topic.topic, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    return [FetchPartition(key, partition) for key, partition in wanted.items()]


def _forgotten(ctx: RequestContext, request: FetchRequest) -> list[Key]:
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    return [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


# --- locate


def _reply_bytes_max(ctx: RequestContext, request: FetchRequest) -> int:
    return min(request.max_bytes, ctx.broker.config.fetch_max_bytes, ctx.connection.reply_bytes_max)


def _locate_all(
    ctx: RequestContext, request: FetchRequest, partitions: Sequence[FetchPartition], follower: Follower | None
) -> list[_Read]:
    """Find the bytes for each partition, within the limits of partition and request (KIP-74)."""
    reads = []
    left_bytes = _reply_bytes_max(ctx, request)
    nothing_yet = True
    for asked in partitions:
        read = _Read(asked)
        reads.append(read)
        try:
            read.partition = _find(ctx, read.asked.key, follower)
            if follower is None:
                _locate(ctx, request, read, left_bytes, nothing_yet)
            else:
                _locate_for_follower(follower, read, left_bytes, nothing_yet)
        except ApiError as error:
            read.refuse(error.code)
        except StorageError:
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        if read.range.size_bytes:
            nothing_yet = False
            left_bytes = max(0, left_bytes - read.range.size_bytes)
    return reads


def _locate(ctx: RequestContext, request: FetchRequest, read: _Read, left_bytes: int, nothing_yet: bool) -> None:
    wanted: FetchRequestPartition = read.asked.wanted
    partition = cast("Partition", read.partition)
    check_consumer(ctx, partition, wanted)
    reply = read.reply
    reply.high_watermark = partition.high_watermark
    last_stable_offset = reply.last_stable_offset = partition.last_stable_offset
    reply.log_start_offset = partition.log.log_start_offset
    reply.aborted_transactions = [] if request.isolation_level == READ_COMMITTED else None
    if wanted.last_fetched_epoch >= 0 and _diverges(partition, wanted, reply):
        return
    if request.rack_id and (nearer := nearer_replica(ctx, request, partition, wanted)) is not None:
        reply.preferred_read_replica = nearer
        return
    readable = last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark
    limit = min(wanted.partition_max_bytes, left_bytes)
    read.range = partition.log.locate(wanted.fetch_offset, limit, readable, nothing_yet)
    if request.isolation_level == READ_COMMITTED and read.range.size_bytes:
        aborted = partition.log.aborted_in(wanted.fetch_offset, read.range)
        reply.aborted_transactions = [
            FetchResponseAbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
            for transaction in aborted
        ]


def _locate_for_follower(follower: Follower, read: _Read, left_bytes: int, nothing_yet: bool) -> None:
    wanted: FetchRequestPartition = read.asked.wanted
    partition = cast("Partition", read.partition)
    follower.check(partition, wanted)
    storage, reply = partition.log, read.reply
    reply.high_watermark, reply.log_start_offset = partition.high_watermark, storage.log_start_offset
    if wanted.last_fetched_epoch >= 0 and _diverges(partition, wanted, reply):
        return
    limit = min(wanted.partition_max_bytes, left_bytes)
    read.range = storage.locate(wanted.fetch_offset, limit, storage.log_end_offset, nothing_yet)


def _note_progress(follower: Follower, reads: Sequence[_Read]) -> None:
    """Believe a follower what it has, and tell it what is committed by that."""
    for read in reads:
        if not _is_urgent(read) and read.partition is not None:
            follower.note(read.partition, read.asked.wanted)
            read.reply.high_watermark = read.partition.high_watermark


def _find(ctx: RequestContext, key: Key, follower: Follower | None) -> Partition:
    topic, index = key
    if isinstance(topic, UUID):
        known = ctx.broker.image.topics_by_id.get(topic)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        topic = known.name
    name = str(topic)
    if follower is None and not ctx.is_allowed(Operation.READ, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return ctx.broker.replicas.get(name, index)


def _diverges(partition: Partition, wanted: FetchRequestPartition, reply: FetchResponsePartition) -> bool:
    """Whether the reader's log is not a prefix of this one (KIP-595)."""
    diverging = find_divergence(partition.log, partition.leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch)
    if diverging is None:
        return False
    if wanted.fetch_offset < partition.log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, "what the reader has is gone here")
    reply.diverging_epoch = FetchResponseEpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
    return True


def _is_urgent(read: _Read) -> bool:
    reply = read.reply
    return reply.error_code != 0 or reply.diverging_epoch is not None or reply.preferred_read_replica >= 0


# --- read


async def _read_all(ctx: RequestContext, reads: Sequence[_Read]) -> None:
    cold = [read for read in reads if read.range.size_bytes and not _read_cached(read)]
    if cold:
        await asyncio.get_running_loop().run_in_executor(ctx.broker.worker, _read_from_disk, cold)


def _read_cached(read: _Read) -> bool:
    try:
        read.reply.records = read.range.read_cached()
    except StorageError:
        read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    return read.reply.records is not None


def _read_from_disk(reads: Sequence[_Read]) -> None:
    for read in reads:
        try:
            read.reply.records = read.range.read()
        except StorageError:
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)


# --- reply


def _with_news(context: FetchContext, reads: Sequence[_Read]) -> Sequence[_Read]:
    if context.session is None:
        return reads
    news = [read for read in reads if _is_news(read)]
    context.session.served(read.asked.key for read in reads if read.range.size_bytes)
    return news if context.incremental else reads


def _is_news(read: _Read) -> bool:
    reply = read.reply
    told = read.asked.has_news(reply.error_code, read.range.size_bytes, reply.high_watermark, reply.log_start_offset)
    return told or reply.diverging_epoch is not None or reply.preferred_read_replica >= 0


def _by_topic(ctx: RequestContext, reads: Sequence[_Read]) -> list[FetchResponseTopic]:
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
