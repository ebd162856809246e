"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the requests of a transaction to its coordinator.

From version 4 on only brokers send AddPartitionsToTxn, for several producers at once (KIP-890).
"""

import asyncio
from collections.abc import Iterable

from tailrace.base.limits import PEER_BATCH_COUNT_MAX
from tailrace.base.topic_name import INTERNAL_TOPICS
from tailrace.machines.transaction.answer import ADD_KNOWS_FENCED, END_RAISES_EPOCH, answer_add, for_version
from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseTransaction,
    EndTxnRequest,
    EndTxnResponse,
)
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, partition_for
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.coordinator_topic import make_group_topic
from tailrace.server.group_caller import check_group, refuse_if_abandoned
from tailrace.server.transaction_caller import ask_coordinator, check_cluster_action, check_transactional_id

_FIRST_BATCHED_VERSION = 4
_FIRST_ADDING_VERSION = 5  # a broker may add partitions for its producer; before, it only verifies them


# --- AddPartitionsToTxn


def fail_add_partitions(
    ctx: RequestContext, request: AddPartitionsToTxnRequest, error: ApiError
) -> AddPartitionsToTxnResponse:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(error_code=error.code)
    (asked,) = _transactions(ctx, request)
    return _reply_add(ctx, [_refuse_add(asked, error.code)])


@api(AddPartitionsToTxnRequest, versions=(0, 5), fail=fail_add_partitions)
async def add_partitions_to_txn(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add partitions to transactions, or verify that they are in them; each transaction separately."""
    if ctx.version >= _FIRST_BATCHED_VERSION:
        check_cluster_action(ctx)
    asked = _transactions(ctx, request)
    if len(asked) == 1:
        return _reply_add(ctx, [await _add(ctx, asked[0])])
    results: list[AddPartitionsToTxnResponseTransaction] = []
    # Brokers send no more at a time. A task for each of a hundred thousand would take some hundred megabytes.
    for start in range(0, len(asked), PEER_BATCH_COUNT_MAX):
        together = asked[start : start + PEER_BATCH_COUNT_MAX]
        results += await asyncio.gather(*(_add(ctx, each) for each in together))
    return _reply_add(ctx, results)


def _transactions(
    ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> list[AddPartitionsToTxnRequestTransaction]:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnRequestTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


async def _add(
    ctx: RequestContext, asked: AddPartitionsToTxnRequestTransaction
) -> AddPartitionsToTxnResponseTransaction:
    try:
        if ctx.version < _FIRST_BATCHED_VERSION:
            check_transactional_id(ctx, Operation.WRITE, asked.transactional_id)
        partitions = list(_partitions(asked))
        problems = {each: code for each in partitions if (code := _problem(ctx, each)) is not ErrorCode.NONE}
        if problems:
            # If one partition cannot be added, none is.
            refused = {each: problems.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
            return answer_add(asked.transactional_id, refused)
        if asked.verify_only:
            codes = await ctx.broker.transactions.verify(
                asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions
            )
            return answer_add(asked.transactional_id, codes)
        return await ask_coordinator(
            ctx,
            asked.transactional_id,
            AddPartitionsToTxnResponseTransaction,
            lambda machine, now_ms, token: machine.decide_add_partitions(
                now_ms,
                token,
                asked.transactional_id,
                asked.producer_id,
                asked.producer_epoch,
                partitions,
                client_version=CLIENT_VERSION_2 if ctx.version >= _FIRST_ADDING_VERSION else CLIENT_VERSION_1,
            ),
        )
    except ApiError as error:
        return _refuse_add(asked, error.code)


def _partitions(asked: AddPartitionsToTxnRequestTransaction) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in asked.topics for index in topic.partitions)


def _problem(ctx: RequestContext, partition: TopicPartition) -> ErrorCode:
    name, index = partition
    is_client = ctx.version < _FIRST_BATCHED_VERSION
    if is_client and (name in INTERNAL_TOPICS or not ctx.is_allowed(Operation.WRITE, Resource.TOPIC, name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = ctx.broker.image.topics.get(name)
    is_there = topic is not None and 0 <= index < topic.partition_count
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refuse_add(asked: AddPartitionsToTxnRequestTransaction, code: ErrorCode) -> AddPartitionsToTxnResponseTransaction:
    return answer_add(asked.transactional_id, dict.fromkeys(_partitions(asked), code))


def _reply_add(
    ctx: RequestContext, results: Iterable[AddPartitionsToTxnResponseTransaction]
) -> AddPartitionsToTxnResponse:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_transaction=list(results))
    (only,) = results
    for topic in only.topic_results:
        for result in topic.results_by_partition:
            code = ErrorCode(result.partition_error_code)
            result.partition_error_code = for_version(code, ctx.version, ADD_KNOWS_FENCED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)


# --- AddOffsetsToTxn


def fail_add_offsets(ctx: RequestContext, request: AddOffsetsToTxnRequest, error: ApiError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=for_version(error.code, ctx.version, ADD_KNOWS_FENCED))


@api(AddOffsetsToTxnRequest, versions=(0, 4), fail=fail_add_offsets)
async def add_offsets_to_txn(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the partition that stores the offsets of a group to a transaction."""
    check_transactional_id(ctx, Operation.WRITE, request.transactional_id)
    check_group(ctx, Operation.READ, request.group_id)
    await make_group_topic(ctx)
    partition = OFFSETS_TOPIC, partition_for(request.group_id, ctx.broker.groups.partition_count)
    response = await ask_coordinator(
        ctx,
        request.transactional_id,
        AddPartitionsToTxnResponseTransaction,
        lambda machine, now_ms, token: machine.decide_add_partitions(
            now_ms,
            token,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [partition],
            client_version=CLIENT_VERSION_1,
        ),
    )
    (topic,) = response.topic_results
    (result,) = topic.results_by_partition
    if result.partition_error_code:
        raise ApiError(ErrorCode(result.partition_error_code))
    return AddOffsetsToTxnResponse()


# --- EndTxn


def fail_end(ctx: RequestContext, request: EndTxnRequest, error: ApiError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


@api(EndTxnRequest, versions=(0, 5), fail=fail_end)
async def end_txn(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort a transaction; its markers may be written later."""
    check_transactional_id(ctx, Operation.WRITE, request.transactional_id)
    await ctx.broker.producer_ids.ready()
    if ctx.version < END_RAISES_EPOCH:  # later versions have an epoch for each transaction
        refuse_if_abandoned(ctx)
    return await ask_coordinator(
        ctx,
        request.transactional_id,
        EndTxnResponse,
        lambda machine, now_ms, token: machine.decide_end(now_ms, token, request, ctx.version),
    )
