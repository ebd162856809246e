"""Fetch: batches for consumers and followers, in the bytes of the log, at once or after a long poll.

The way of a request: open or continue the session, locate the ranges of bytes, wait if they
are too few, read them, and name the partitions that have news. Bytes that lie in the page
cache are read on the event loop; bytes that need the disk are read in a worker thread, so
that a reader of old data does not delay other clients.
"""

from collections.abc import Sequence
from functools import partial

from tailrace.machines.fetch_session import FetchContext, FetchPartition, Key
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseAbortedTransaction,
)
from tailrace.runtime.fetch_wait import FetchWait
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.handlers.fetch_read import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    Read,
    by_topic,
    diverges,
    locate_all,
    poll,
    read_all,
    select_named,
    topic_partition,
)
from tailrace.server.handlers.replica_fetch import (
    NotAFollower,
    check_consumer,
    follower_of,
    nearer_replica,
    serve_follower,
)
from tailrace.server.leader_hint import FIRST_FETCH_VERSION, hint_reader

READ_COMMITTED = 1


def fail(ctx: RequestContext, request: FetchRequest, error: ApiError) -> FetchResponse:
    if ctx.version >= 7 and not isinstance(error, NotAFollower):
        return FetchResponse(error_code=error.code)
    reads = [Read(asked) for asked in _asked(ctx, request)]
    for read in reads:
        read.refuse(error.code)
    return FetchResponse(responses=by_topic(ctx, reads))


@api(FetchRequest, versions=(4, 18), fail=fail)
async def fetch(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Serve a consumer or a follower."""
    follower = follower_of(ctx, request)
    if follower is not None:
        ctx.quota = None
    is_over_quota = ctx.quota is not None and ctx.quota.must_wait_for_fetch()
    if is_over_quota and request.session_epoch <= 0:
        return FetchResponse()  # the client opens its session with the next request
    now_ms, asked, forgotten = ctx.broker.clock.monotonic_ms(), _asked(ctx, request), _forgotten(ctx, request)
    context = ctx.broker.fetch_sessions.begin(
        *(now_ms, request.session_id, request.session_epoch, asked, forgotten),
        uses_topic_ids=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS,
        owner=None if follower is None else follower.lane,
    )
    if is_over_quota:
        return FetchResponse(session_id=context.session_id)
    if follower is not None:
        named = [partition.key for partition in asked]
        reads = await serve_follower(ctx, request, follower, context, named, forgotten)
        return _respond(ctx, context, reads)
    reads = await _serve_consumer(ctx, request, context)
    return _respond(ctx, context, reads)


async def _serve_consumer(ctx: RequestContext, request: FetchRequest, context: FetchContext) -> list[Read]:
    """Return the reads for the reply to a consumer: in an incremental session those with news."""
    locate = partial(locate_all, ctx, request, context.partitions, partial(_locate, ctx, request))
    reads = locate()
    if reads:
        reads = await poll(ctx, request, reads, locate, partial(_sleep, reads))
    await read_all(ctx, reads)
    if context.session is not None:
        context.session.served(read.asked.key for read in reads if read.range.size_bytes)
    return select_named(context, reads)


async def _sleep(reads: Sequence[Read], wait: FetchWait, timeout_s: float) -> None:
    await wait.wait([read.partition for read in reads if read.partition is not None], timeout_s)


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


def _locate(ctx: RequestContext, request: FetchRequest, read: Read, left_bytes: int, nothing_yet: bool) -> None:
    wanted: FetchRequestPartition = read.asked.wanted
    name, index = topic_partition(ctx, read.asked.key)
    if not ctx.is_allowed(Operation.READ, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = read.partition = ctx.broker.replicas.get(name, index)
    check_consumer(ctx, partition, wanted)
    reply = read.reply
    reply.high_watermark = partition.high_watermark
    last_stable_offset = reply.last_stable_offset = partition.last_stable_offset
    reply.log_start_offset = partition.log.log_start_offset
    reply.aborted_transactions = [] if request.isolation_level == READ_COMMITTED else None
    if wanted.last_fetched_epoch >= 0 and diverges(partition, wanted, reply):
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


# --- reply


def _respond(ctx: RequestContext, context: FetchContext, reads: Sequence[Read]) -> FetchResponse:
    response = FetchResponse(session_id=context.session_id, responses=by_topic(ctx, reads))
    if ctx.version >= FIRST_FETCH_VERSION and any(read.reply.error_code for read in reads):
        hint_reader(ctx, response)
    return response
