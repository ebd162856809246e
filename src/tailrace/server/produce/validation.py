"""The checks of a produce request's batches: header and checksum first, then every record.

What is quickly done runs on the event loop, the rest in a worker thread, in turns. The size of a compressed batch is
known only by opening it: a few hundred bytes may become 64 MiB, and a request may have thousands of such batches. So
the bytes that are opened are counted. A client that sends many of them and leaves is not served to the end.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tailrace.base.frames import without_frames
from tailrace.base.limits import CHECK_IN_LOOP_BYTES_MAX, CHECK_TURN_BYTES_MAX, OPEN_IN_LOOP_BYTES_MAX
from tailrace.base.request_limits import OPENED_BYTES_UNATTENDED_MAX
from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.config.topic import TopicConfig
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import ProduceResponsePartition
from tailrace.records.batch import BatchHeader
from tailrace.records.compression import Compression
from tailrace.records.validation import ValidBatch, check_header, check_records
from tailrace.runtime.partition import Partition
from tailrace.server.context import RequestContext
from tailrace.server.group_caller import refuse_if_abandoned
from tailrace.server.produce.batch import ParsedBatch, ValidatedBatch, refuse, reject
from tailrace.server.produce.mirror import refuse_producer

_FIRST_VERSION_WITH_ZSTD = 7  # KIP-110


def parse(
    ctx: RequestContext, acks: int, reply: ProduceResponsePartition, partition: Partition, buffer: memoryview
) -> ParsedBatch | None:
    """Check the header and the checksum of a batch; None if it is rejected.

    Kafka also checks first whether the broker is the leader. A batch that the log has already is never too large.
    """
    if partition.config.tailrace_mirror_claim:
        refuse_producer(reply, partition)
        return None
    try:
        partition.check_writable(acks)
    except ApiError as error:
        refuse(reply, error)
        return None
    try:
        header = check_header(
            buffer,
            size_bytes_max=partition.config.max_message_bytes,
            allow_zstd=ctx.version >= _FIRST_VERSION_WITH_ZSTD,
            is_known=lambda header: partition.find_appended(header) is not None,
        )
    except ApiError as error:
        reject(ctx, reply, partition, error)
        return None
    return ParsedBatch(reply, partition, buffer, header)


class Check(NamedTuple):
    """The outcome of one look at the records of a batch, and how many bytes it may have opened.

    Without an outcome the batch is larger than could be opened.
    """

    outcome: ValidBatch | ApiError | None
    opened_bytes: int


async def validate(ctx: RequestContext, batches: Sequence[ParsedBatch]) -> list[ValidatedBatch]:
    """Check every record of the batches; return those that may be stored, in the same order.

    Raise REQUEST_TIMED_OUT if the client has left and there is much to open.
    """
    outcomes: list[ValidBatch | ApiError | None] = []
    left_bytes = CHECK_TURN_BYTES_MAX
    for batch in batches:
        check = Check(None, 0)
        if left_bytes > 0 and _is_quick(batch):
            check = _check(ctx, batch, OPEN_IN_LOOP_BYTES_MAX)
            left_bytes -= check.opened_bytes
        outcomes.append(check.outcome)
    aside = [index for index, outcome in enumerate(outcomes) if outcome is None]
    opened_bytes = 0
    while aside:
        if opened_bytes > OPENED_BYTES_UNATTENDED_MAX:
            refuse_if_abandoned(ctx)
        turn = await asyncio.get_running_loop().run_in_executor(
            ctx.broker.worker, _check_turn, ctx, [batches[index] for index in aside]
        )
        for index, check in zip(aside, turn, strict=False):
            outcomes[index] = check.outcome
            opened_bytes += check.opened_bytes
        del aside[: len(turn)]
    return [
        validated
        for batch, outcome in zip(batches, outcomes, strict=True)
        if (validated := _conclude(ctx, batch, outcome)) is not None
    ]


def _conclude(ctx: RequestContext, batch: ParsedBatch, outcome: ValidBatch | ApiError | None) -> ValidatedBatch | None:
    if isinstance(outcome, ValidBatch):
        return ValidatedBatch(batch.reply, batch.partition, batch.buffer, outcome)
    if outcome is not None:
        reject(ctx, batch.reply, batch.partition, outcome)
    return None


def _is_quick(batch: ParsedBatch) -> bool:
    return _is_plain(batch.header) or len(batch.buffer) <= CHECK_IN_LOOP_BYTES_MAX


def _is_plain(header: BatchHeader) -> bool:
    return header.compression is Compression.NONE


def _check_turn(ctx: RequestContext, batches: Sequence[ParsedBatch]) -> list[Check]:
    """Check batches until so many bytes were opened that other requests should have the thread."""
    checks: list[Check] = []
    left_bytes = CHECK_TURN_BYTES_MAX
    for batch in batches:
        if left_bytes <= 0:
            break
        check = _check(ctx, batch, ctx.broker.config.tailrace_decompressed_max_bytes)
        checks.append(check)
        left_bytes -= check.opened_bytes
    return checks


def _check(ctx: RequestContext, batch: ParsedBatch, open_bytes_max: int) -> Check:
    """Check the records of one batch, opening at most `open_bytes_max`."""
    config = batch.partition.config
    limit_bytes = ctx.broker.config.tailrace_decompressed_max_bytes
    oldest, newest = _allowed_time(config, ctx.broker.clock.now_ms())
    try:
        valid = check_records(
            batch.buffer,
            batch.header,
            decompressed_bytes_max=min(open_bytes_max, limit_bytes),
            require_key="compact" in config.cleanup_policy,
            timestamp_min=oldest,
            timestamp_max=newest,
            schema_parts=config.schema_parts,
        )
    except ApiError as error:
        is_cut = error.code is ErrorCode.MESSAGE_TOO_LARGE and open_bytes_max < limit_bytes
        # Its frames hold what was opened, and a request may have thousands of such batches.
        return Check(
            None if is_cut else without_frames(error), len(batch.buffer) if _is_plain(batch.header) else open_bytes_max
        )
    return Check(valid, valid.records_size_bytes)


def _allowed_time(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    if config.message_timestamp_type == "LogAppendTime":
        return INT64_MIN, INT64_MAX
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return max(INT64_MIN, now_ms - before_ms), min(INT64_MAX, now_ms + after_ms)
