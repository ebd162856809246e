"""Produce: batches come in, are checked, get their offsets and go to the log as the bytes they are.

The way of a request: find each partition, check each batch, append them, wait for the flushes
that `flush.messages` wants and for the replicas that `acks=all` wants, reply. Checks that open
compressed batches run in a worker thread, and so do flushes; the requests of one connection are
served one after the other, so a producer's batches never overtake each other there.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

from runnel.base.limits import CHECK_IN_LOOP_BYTES_MAX, CHECK_TURN_BYTES_MAX, OPEN_IN_LOOP_BYTES_MAX
from runnel.base.topic_name import INTERNAL_TOPICS
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from runnel.records.batch import BatchHeader, TimestampType, read_header, set_max_timestamp
from runnel.records.compression import Compression
from runnel.records.record import INT64_MAX, INT64_MIN
from runnel.records.validation import check_header, check_records
from runnel.runtime.commit_wait import CommitEnd
from runnel.runtime.partition import ACKS_ALL, Partition
from runnel.server.api import api
from runnel.server.connection import ConnectionClosed
from runnel.server.context import Operation, RequestContext, Resource
from runnel.server.leader_hint import FIRST_PRODUCE_VERSION, hint_producer
from runnel.server.produce_write import Write, begin_transactions
from runnel.server.transaction_caller import check_transactional_id

NO_ACKS = 0
LEGAL_ACKS = (-1, 0, 1)
FIRST_VERSION_WITH_ZSTD = 7  # KIP-110
FIRST_VERSION_WITH_TOPIC_IDS = 13  # KIP-516


def fail(ctx: RequestContext, request: ProduceRequest, error: ApiError) -> ProduceResponse:  # noqa: ARG001
    if request.acks == NO_ACKS:
        raise ConnectionClosed(f"a produce request without acks failed: {error}")
    response, writes = _prepare(request)
    for write in writes:
        write.refuse(error)
    return response


@api(
    ProduceRequest,
    versions=(3, 13),
    advertised_min=0,  # KAFKA-18659: librdkafka before 2.11.1 stops compressing otherwise
    fail=fail,
)
async def produce(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append one batch to each partition that was named."""
    if request.acks not in LEGAL_ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {request.acks}")
    response, writes = _prepare(request)
    position = 0
    for topic in request.topic_data:
        _find(ctx, topic, writes[position : position + len(topic.partition_data)])
        position += len(topic.partition_data)
    await _check(ctx, request, [write for write in writes if write.partition is not None])
    transactional = [write for write in writes if write.valid is not None and write.valid.header.is_transactional]
    if transactional and request.transactional_id is not None:
        await begin_transactions(ctx, request.transactional_id, transactional)
    _append(ctx, request.acks, writes)
    if request.acks == NO_ACKS:
        _close_on_error(writes)
        return None
    flushed = [write for write in writes if write.partition is not None and write.partition.flush_end is not None]
    if flushed:
        await _wait_for_flushes(writes, flushed)
    if request.acks == ACKS_ALL:
        waits = [wait for write in writes if (wait := _uncommitted(write)) is not None]
        if waits:
            await _wait_for_commits(waits, request.timeout_ms)
    if ctx.version >= FIRST_PRODUCE_VERSION and any(write.reply.error_code for write in writes):
        hint_producer(ctx, response)
    return response


def _prepare(request: ProduceRequest) -> tuple[ProduceResponse, list[Write]]:
    response, writes = ProduceResponse(), []
    for topic in request.topic_data:
        replies = [ProduceResponsePartition(index=data.index, base_offset=-1) for data in topic.partition_data]
        response.responses.append(
            ProduceResponseTopic(name=topic.name, topic_id=topic.topic_id, partition_responses=replies)
        )
        for reply, data in zip(replies, topic.partition_data, strict=True):
            records = cast("memoryview | None", data.records)
            writes.append(Write(reply, memoryview(b"") if records is None else records))
    return response, writes


# --- find


def _find(ctx: RequestContext, topic: ProduceRequestTopic, writes: Sequence[Write]) -> None:
    try:
        name = _topic_name(ctx, topic)
    except ApiError as error:
        for write in writes:
            write.refuse(error)
        return
    for write in writes:
        try:
            write.partition = ctx.broker.replicas.get(name, write.reply.index)
        except ApiError as error:
            write.refuse(error)


def _topic_name(ctx: RequestContext, topic: ProduceRequestTopic) -> str:
    name = topic.name
    if ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        known = ctx.broker.image.topics_by_id.get(topic.topic_id)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        name = known.name
    if not ctx.is_allowed(Operation.WRITE, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    return name


# --- check


async def _check(ctx: RequestContext, request: ProduceRequest, writes: Sequence[Write]) -> None:
    """Check all batches: on the event loop what is quickly done, the rest in a worker thread, in turns.

    What a compressed batch becomes is known only by opening it; a few hundred bytes may become
    64 MiB, and a request may have thousands of such batches. So what is opened is counted.
    """
    aside = []
    left_bytes = CHECK_TURN_BYTES_MAX
    for write in writes:
        _check_header(ctx, request, write)
        if write.header is None:
            continue
        if left_bytes > 0 and _is_quick(write):
            left_bytes -= _check_records(ctx, write, OPEN_IN_LOOP_BYTES_MAX)
        if write.valid is None and not write.reply.error_code:
            aside.append(write)
    position = 0
    while position < len(aside):
        position = await asyncio.get_running_loop().run_in_executor(
            ctx.broker.worker, _check_in_turn, ctx, aside, position
        )


def _is_quick(write: Write) -> bool:
    is_plain = cast("BatchHeader", write.header).compression is Compression.NONE
    return is_plain or len(write.batch) <= CHECK_IN_LOOP_BYTES_MAX


def _check_in_turn(ctx: RequestContext, writes: Sequence[Write], position: int) -> int:
    """Check batches from `position` on until enough were opened that others should have the thread."""
    left_bytes = CHECK_TURN_BYTES_MAX
    while position < len(writes) and left_bytes > 0:
        left_bytes -= _check_records(ctx, writes[position], ctx.broker.config.runnel_decompressed_max_bytes)
        position += 1
    return position


def _check_header(ctx: RequestContext, request: ProduceRequest, write: Write) -> None:
    partition = cast("Partition", write.partition)
    try:
        header = check_header(
            write.batch,
            size_bytes_max=partition.config.max_message_bytes,
            allow_zstd=ctx.version >= FIRST_VERSION_WITH_ZSTD,
        )
        if header.is_transactional:
            # Judged by what is in the batch, whatever the request says of itself (CVE-2018-17196).
            _check_transactional_id(ctx, request.transactional_id)
        write.header = header
    except ApiError as error:
        write.refuse(error)


def _check_transactional_id(ctx: RequestContext, transactional_id: str | None) -> None:
    if transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the request has no transactional id")
    check_transactional_id(ctx, Operation.WRITE, transactional_id)


def _check_records(ctx: RequestContext, write: Write, open_bytes_max: int) -> int:
    """Check one batch, or leave it as it is if it has to be opened further; how many bytes may have been opened."""
    partition, header = cast("Partition", write.partition), cast("BatchHeader", write.header)
    is_plain = header.compression is Compression.NONE
    limit_bytes = ctx.broker.config.runnel_decompressed_max_bytes
    oldest, newest = _allowed_time(ctx, partition)
    try:
        write.valid = check_records(
            write.batch,
            header,
            decompressed_bytes_max=min(open_bytes_max, limit_bytes),
            require_key="compact" in partition.config.cleanup_policy,
            timestamp_min=oldest,
            timestamp_max=newest,
        )
    except ApiError as error:
        if error.code is not ErrorCode.MESSAGE_TOO_LARGE or open_bytes_max >= limit_bytes:
            write.refuse(error)
        return len(write.batch) if is_plain else open_bytes_max
    return write.valid.records_size_bytes


def _allowed_time(ctx: RequestContext, partition: Partition) -> tuple[int, int]:
    config = partition.config
    if config.message_timestamp_type == "LogAppendTime":
        return INT64_MIN, INT64_MAX
    now_ms = ctx.broker.clock.now_ms()
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return max(INT64_MIN, now_ms - before_ms), min(INT64_MAX, now_ms + after_ms)


# --- append


def _append(ctx: RequestContext, acks: int, writes: Sequence[Write]) -> None:
    now_ms = ctx.broker.clock.now_ms()
    for write in writes:
        if write.valid is None or write.reply.error_code:
            continue
        partition, header = cast("Partition", write.partition), write.valid.header
        try:
            if write.valid.needs_max_timestamp:
                set_max_timestamp(write.batch, 0, TimestampType.CREATE_TIME, write.valid.max_timestamp)
                header = read_header(write.batch)
            appended = partition.append(write.batch, header, acks, now_ms, write.guard)
        except ApiError as error:
            write.refuse(error)
            continue
        write.reply.base_offset = appended.base_offset
        write.reply.log_append_time_ms = appended.log_append_time
        write.reply.log_start_offset = partition.log.log_start_offset


async def _wait_for_flushes(writes: Sequence[Write], flushed: Sequence[Write]) -> None:
    """Wait until what was written is on the disk, or is known not to be."""
    ends = [(write, end) for write in flushed if (end := cast("Partition", write.partition).flush_end) is not None]
    written = [(write, write.partition) for write in writes if write.partition is not None]
    epochs = [partition.leader_epoch for _, partition in written]
    await asyncio.wait({end for _, end in ends})
    for write, end in ends:
        if end.cancelled() or end.result() is not None:
            _take_back(write, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the records could not be forced to disk"))
    for (write, partition), epoch in zip(written, epochs, strict=True):
        # Another leader may have cut the records away meanwhile, and what is committed there be something else.
        if partition.leader_epoch != epoch or not partition.is_sure_to_lead:
            _take_back(write, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _take_back(write: Write, error: ApiError) -> None:
    """Do not acknowledge what was written, unless it was refused before."""
    if not write.reply.error_code:
        write.reply.base_offset = -1
        write.refuse(error)


def _uncommitted(write: Write) -> tuple[Write, CommitEnd] | None:
    """What the acknowledgement of a batch has to wait for; mostly nothing, where there is one replica."""
    partition, valid = write.partition, write.valid
    if partition is None or valid is None or write.reply.error_code:
        return None
    end = partition.when_committed(write.reply.base_offset + valid.header.last_offset_delta + 1)
    return None if end is None else (write, end)


async def _wait_for_commits(waits: Sequence[tuple[Write, CommitEnd]], timeout_ms: int) -> None:
    """Wait until all replicas in sync have what was written, for as long as the producer does."""
    await asyncio.wait([end for _, end in waits], timeout=max(timeout_ms, 0) / 1000)
    for write, end in waits:
        code: ErrorCode | None = ErrorCode.REQUEST_TIMED_OUT
        if end.done():
            code = end.result()
        else:
            end.cancel()
        if code is None and not cast("Partition", write.partition).is_sure_to_lead:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is not None:
            # The records are in the log and may be committed yet; a retry is known by its sequence.
            _take_back(write, ApiError(code))


def _close_on_error(writes: Sequence[Write]) -> None:
    for write in writes:
        if write.reply.error_code:
            # The producer waits for no reply, so this is the only way to tell it.
            reason = ErrorCode(write.reply.error_code).name
            raise ConnectionClosed(f"a produce request without acks failed: {reason}")
