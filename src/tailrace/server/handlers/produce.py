"""Produce: the way of a request's batches into the log.

Each batch goes through the phases of `server.produce.batch`: its header is parsed, its records are
validated (with their schema ids, if the topic asks for it), it is appended to the log as the bytes it
came in, and it is acknowledged when it is flushed and replicated as `flush.messages` and `acks` ask.
A batch that a producer repeats goes from the first phase to the last. Kafka validates it again, and so
rejects a batch that is in the log if the topic's limits were lowered meanwhile. Its producer then cannot
know that the batch was written, and may write it twice or use its sequence number for other records.
Checks that open compressed batches run in a worker thread, and so do flushes. The requests of one
connection are served one after the other, so a producer's batches never overtake each other there.
"""

from collections.abc import Callable, Iterator, Sequence

from tailrace.base.sentinel import ACKS_ALL
from tailrace.base.topic_name import INTERNAL_TOPICS
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tailrace.records.batch import BatchHeader, TimestampType, read_header, says_transactional, set_max_timestamp
from tailrace.runtime.acknowledgement import PendingAcknowledgement, acknowledge, wait_for_acknowledgements
from tailrace.runtime.append import Appended
from tailrace.runtime.partition import Partition
from tailrace.server.api import api
from tailrace.server.connection import ConnectionClosed
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.leader_hint import FIRST_PRODUCE_VERSION, hint_producer
from tailrace.server.produce.batch import (
    AcknowledgedBatch,
    AppendedBatch,
    ParsedBatch,
    ValidatedBatch,
    refuse,
    reject,
)
from tailrace.server.produce.compression import Recompression, needs_recompression
from tailrace.server.produce.mirror import append_mirrored
from tailrace.server.produce.schema import check_schemas
from tailrace.server.produce.transaction import begin_transactions
from tailrace.server.produce.validation import parse, validate
from tailrace.server.transaction_caller import check_transactional_id

NO_ACKS = 0
LEGAL_ACKS = (-1, 0, 1)
FIRST_VERSION_WITH_TOPIC_IDS = 13  # KIP-516

Take = Callable[[ProduceResponsePartition, Partition, ProduceRequestPartition], None]


def fail(ctx: RequestContext, request: ProduceRequest, error: ApiError) -> ProduceResponse:
    if request.acks == NO_ACKS:
        raise ConnectionClosed(f"a produce request without acks failed: {error}")
    response = _response(request)
    for reply in _replies(response):
        refuse(reply, error)
    return response


@api(
    ProduceRequest,
    versions=(3, 13),
    advertised_min=0,  # KAFKA-18659: librdkafka before 2.11.1 stops compressing otherwise
    fail=fail,
)
async def produce(ctx: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append one batch to each partition that the request names."""
    if request.acks not in LEGAL_ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {request.acks}")
    if request.mirror_claim is None and any(says_transactional(records) for records in _records(request)):
        _check_transactional_id(ctx, request.transactional_id)
    response = _response(request)
    if request.mirror_claim is not None:
        mirrored = _append_mirrored(ctx, request, response, request.mirror_claim)
        await _acknowledge_all(ctx, request, response, mirrored)
        return response
    parsed, repeated = _parse(ctx, request, response)
    validated = await validate(ctx, parsed)
    if any(batch.valid.schema_ids for batch in validated):
        validated = await check_schemas(ctx, validated)
    if request.transactional_id is not None and any(batch.valid.header.is_transactional for batch in validated):
        validated = await begin_transactions(ctx, request.transactional_id, validated)
    appended = [*repeated, *await _append(ctx, request.acks, validated)]
    if request.acks == NO_ACKS:
        _close_on_error(response)
        return None
    await _acknowledge_all(ctx, request, response, appended)
    return response


def _response(request: ProduceRequest) -> ProduceResponse:
    """Return a response with a place for the outcome of each batch."""
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponsePartition(index=data.index, base_offset=-1) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _records(request: ProduceRequest) -> Iterator[memoryview]:
    return (_buffer(data) for topic in request.topic_data for data in topic.partition_data)


def _buffer(data: ProduceRequestPartition) -> memoryview:
    """Return the records: the decoder gives a view of the frame, or null, which is rejected like an empty batch."""
    return data.records if isinstance(data.records, memoryview) else memoryview(b"")


def _check_transactional_id(ctx: RequestContext, transactional_id: str | None) -> None:
    """Raise unless the client may write in the transaction.

    It is asked because of what is in the batches, whatever the request says of itself (CVE-2018-17196), and before the
    rights on topics, as in Kafka.
    """
    if transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the request has no transactional id")
    check_transactional_id(ctx, Operation.WRITE, transactional_id)


def _replies(response: ProduceResponse) -> Iterator[ProduceResponsePartition]:
    return (reply for topic in response.responses for reply in topic.partition_responses)


# --- parsed


def _parse(
    ctx: RequestContext, request: ProduceRequest, response: ProduceResponse
) -> tuple[list[ParsedBatch], list[AppendedBatch]]:
    """Find the partitions of the request and check the headers of the batches for them.

    Returns the batches to append, and those that were appended before.
    """

    def take(reply: ProduceResponsePartition, partition: Partition, data: ProduceRequestPartition) -> None:
        batch = parse(ctx, request.acks, reply, partition, _buffer(data))
        if batch is None:
            return
        try:
            found = partition.find_appended(batch.header)
        except ApiError as error:
            refuse(reply, error)
            return
        if found is None:
            parsed.append(batch)
        else:
            repeated.append(_in_log(reply, partition, found, batch.header, request.acks))

    parsed: list[ParsedBatch] = []
    repeated: list[AppendedBatch] = []
    _find(ctx, request, response, take)
    return parsed, repeated


def _find(ctx: RequestContext, request: ProduceRequest, response: ProduceResponse, take: Take) -> None:
    """Call `take` for each partition that this broker has and the client may write; refuse the others."""
    for topic, answer in zip(request.topic_data, response.responses, strict=True):
        try:
            name = _topic_name(ctx, topic)
        except ApiError as error:
            for reply in answer.partition_responses:
                refuse(reply, error)
            continue
        for data, reply in zip(topic.partition_data, answer.partition_responses, strict=True):
            try:
                partition = ctx.broker.replicas.get(name, data.index)
            except ApiError as error:
                refuse(reply, error)
            else:
                take(reply, partition, data)


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


# --- appended


async def _append(ctx: RequestContext, acks: int, batches: Sequence[ValidatedBatch]) -> list[AppendedBatch]:
    """Append the batches in their order; return those that are in the log."""
    recompression = Recompression(ctx)
    now_ms = ctx.broker.clock.now_ms()
    appended = []
    for batch in batches:
        config = batch.partition.config
        ready = batch
        try:
            if needs_recompression(batch, config):
                ready = await recompression.convert(batch, config)
                now_ms = ctx.broker.clock.now_ms()  # other requests may have appended meanwhile
            appended.append(_append_one(ready, acks, now_ms))
        except ApiError as error:
            if error.code.retriable:
                refuse(batch.reply, error)
            else:
                reject(ctx, batch.reply, batch.partition, error)
    return appended


def _append_one(batch: ValidatedBatch, acks: int, now_ms: int) -> AppendedBatch:
    partition, header = batch.partition, batch.valid.header
    if batch.valid.needs_max_timestamp:
        set_max_timestamp(batch.buffer, 0, TimestampType.CREATE_TIME, batch.valid.max_timestamp)
        header = read_header(batch.buffer)
    appended = partition.append(batch.buffer, header, acks, now_ms, batch.guard)
    return _in_log(batch.reply, partition, appended, header, acks)


def _in_log(
    reply: ProduceResponsePartition, partition: Partition, appended: Appended, header: BatchHeader, acks: int
) -> AppendedBatch:
    end_offset = appended.base_offset + header.last_offset_delta + 1
    acknowledgement = ErrorCode.NONE if acks == NO_ACKS else acknowledge(partition, end_offset, acks=acks)
    return AppendedBatch(reply, appended, partition.log.log_start_offset, acknowledgement)


def _append_mirrored(
    ctx: RequestContext, request: ProduceRequest, response: ProduceResponse, claim: str
) -> list[AppendedBatch]:
    """Append the batches of another cluster at their offsets; return what is in the log."""

    def take(reply: ProduceResponsePartition, partition: Partition, data: ProduceRequestPartition) -> None:
        batches = append_mirrored(ctx, claim, reply, partition, data)
        if batches is not None:
            appended.append(batches)

    if request.acks != ACKS_ALL:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"a mirror must use acks=-1, not {request.acks}")
    appended: list[AppendedBatch] = []
    _find(ctx, request, response, take)
    return appended


# --- acknowledged


async def _acknowledge_all(
    ctx: RequestContext, request: ProduceRequest, response: ProduceResponse, batches: Sequence[AppendedBatch]
) -> None:
    for batch in await _acknowledge(batches, request.timeout_ms):
        batch.fill_reply()
    if ctx.version >= FIRST_PRODUCE_VERSION and any(reply.error_code for reply in _replies(response)):
        hint_producer(ctx, response)


async def _acknowledge(batches: Sequence[AppendedBatch], timeout_ms: int) -> list[AcknowledgedBatch]:
    """Wait until the leader may acknowledge what it has appended; return what it acknowledges.

    A batch that is not acknowledged is still in the log, and may be committed later; one that the producer sends again
    is known by its sequence.
    """
    pending = [batch.acknowledgement for batch in batches if isinstance(batch.acknowledgement, PendingAcknowledgement)]
    if pending:
        await wait_for_acknowledgements(pending, timeout_ms)
    acknowledged = []
    for batch in batches:
        found = batch.acknowledgement
        code = found.code if isinstance(found, PendingAcknowledgement) else found
        if code is ErrorCode.NONE:
            acknowledged.append(AcknowledgedBatch(batch.reply, batch.appended, batch.log_start_offset))
        else:
            refuse(batch.reply, ApiError(code))
    return acknowledged


def _close_on_error(response: ProduceResponse) -> None:
    for reply in _replies(response):
        if reply.error_code:
            # The producer waits for no reply, so this is the only way to tell it.
            raise ConnectionClosed(f"a produce request without acks failed: {ErrorCode(reply.error_code).name}")
