"""DescribeTransactions, ListTransactions and DescribeProducers: the administration of transactions (KIP-664)."""

import asyncio

from tailrace.base.repetition import Repetitions
from tailrace.base.topic_name import topic_name_problem
from tailrace.machines.transaction.view import unknown_states
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)
from tailrace.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.transaction_caller import check_transactional_id
from tailrace.storage.producer_state import ProducerEntry

# --- DescribeTransactions


def fail_describe(
    ctx: RequestContext,
    request: DescribeTransactionsRequest,
    error: ApiError,
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_unknown(name, error) for name in request.transactional_ids]
    )


@api(DescribeTransactionsRequest, versions=(0, 0), fail=fail_describe)
async def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each transactional id that this broker coordinates."""
    repetitions = Repetitions()
    names = filter(repetitions.admits, request.transactional_ids)
    return DescribeTransactionsResponse(transaction_states=[await _describe(ctx, name) for name in names])


async def _describe(ctx: RequestContext, name: str) -> DescribeTransactionsResponseTransaction:
    await asyncio.sleep(0)  # see `find_coordinator`
    try:
        check_transactional_id(ctx, Operation.DESCRIBE, name)
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        found = ctx.broker.transactions.machine(name).describe(name)
        await ctx.broker.transactions.acknowledged(name)
    except ApiError as error:
        return _unknown(name, error)
    found.topics = [
        topic
        for topic in found.topics
        if ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic.topic, is_probe=True)
    ]
    return found


def _unknown(name: str, error: ApiError) -> DescribeTransactionsResponseTransaction:
    return DescribeTransactionsResponseTransaction(transactional_id=name, error_code=error.code)


# --- ListTransactions


def fail_list(ctx: RequestContext, request: ListTransactionsRequest, error: ApiError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


@api(ListTransactionsRequest, versions=(0, 2), fail=fail_list)
async def list_transactions(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List the transactional ids that this broker coordinates."""
    now_ms = ctx.broker.clock.now_ms()
    found = [entry for machine in ctx.broker.transactions.machines() for entry in machine.list(now_ms, request)]
    return ListTransactionsResponse(
        unknown_state_filters=unknown_states(request.state_filters),
        transaction_states=[
            entry
            for entry in found
            if ctx.is_allowed(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, entry.transactional_id, is_probe=True)
        ],
    )


# --- DescribeProducers


def fail_producers(
    ctx: RequestContext,
    request: DescribeProducersRequest,
    error: ApiError,
) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[_refuse(topic, error) for topic in request.topics])


@api(DescribeProducersRequest, versions=(0, 0), fail=fail_producers)
async def describe_producers(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """List the producers in the state of partitions; every replica can answer."""
    repetitions = Repetitions()
    return DescribeProducersResponse(topics=[_describe_topic(ctx, topic, repetitions) for topic in request.topics])


def _describe_topic(
    ctx: RequestContext, asked: DescribeProducersRequestTopic, repetitions: Repetitions
) -> DescribeProducersResponseTopic:
    if (problem := topic_name_problem(asked.name)) is not None:
        return _refuse(asked, ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem))
    if not ctx.is_allowed(Operation.READ, Resource.TOPIC, asked.name):
        return _refuse(asked, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    partitions = [
        _describe_partition(ctx, asked.name, index)
        for index in asked.partition_indexes
        if repetitions.admits((asked.name, index))
    ]
    return DescribeProducersResponseTopic(name=asked.name, partitions=partitions)


def _describe_partition(ctx: RequestContext, name: str, index: int) -> DescribeProducersResponsePartition:
    try:
        producers = ctx.broker.replicas.get(name, index).log.producers
    except ApiError as error:
        return _refuse_partition(index, error)
    entries = [_producer(entry) for entry in producers.entries.values()]
    return DescribeProducersResponsePartition(partition_index=index, active_producers=entries)


def _producer(entry: ProducerEntry) -> DescribeProducersResponseProducer:
    return DescribeProducersResponseProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )


def _refuse(asked: DescribeProducersRequestTopic, error: ApiError) -> DescribeProducersResponseTopic:
    partitions = [_refuse_partition(index, error) for index in asked.partition_indexes]
    return DescribeProducersResponseTopic(name=asked.name, partitions=partitions)


def _refuse_partition(index: int, error: ApiError) -> DescribeProducersResponsePartition:
    return DescribeProducersResponsePartition(partition_index=index, error_code=error.code, error_message=error.message)
