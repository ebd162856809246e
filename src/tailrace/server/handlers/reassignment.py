"""AlterPartitionReassignments, ListPartitionReassignments and UnregisterBroker: moves between brokers."""

from collections.abc import Mapping

from tailrace.machines.controller.move import Move, moving
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource


def _check(ctx: RequestContext, operation: Operation) -> None:
    if not ctx.is_allowed(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


# --- AlterPartitionReassignments


def fail_alter(
    ctx: RequestContext,
    request: AlterPartitionReassignmentsRequest,
    error: ApiError,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=[
            AlterPartitionReassignmentsResponseTopic(
                name=asked.name, partitions=[_altered(wanted.partition_index, error) for wanted in asked.partitions]
            )
            for asked in request.topics
        ],
    )


@api(AlterPartitionReassignmentsRequest, versions=(0, 1), fail=fail_alter, is_controllers=True)
async def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start or cancel the reassignment of partitions."""
    _check(ctx, Operation.ALTER)
    ctx.broker.controller.check()
    may_change_factor = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        responses=[await _alter(ctx, asked, may_change_factor) for asked in request.topics],
    )


async def _alter(
    ctx: RequestContext, asked: AlterPartitionReassignmentsRequestTopic, may_change_factor: bool
) -> AlterPartitionReassignmentsResponseTopic:
    moves = [Move(wanted.partition_index, wanted.replicas) for wanted in asked.partitions]
    errors: Mapping[int, ApiError]
    try:
        errors = await ctx.broker.controller.move_partitions(asked.name, moves, may_change_factor=may_change_factor)
    except ApiError as error:
        errors = {move.partition: error for move in moves}
    return AlterPartitionReassignmentsResponseTopic(
        name=asked.name, partitions=[_altered(move.partition, errors.get(move.partition)) for move in moves]
    )


def _altered(index: int, error: ApiError | None) -> AlterPartitionReassignmentsResponsePartition:
    if error is None:
        return AlterPartitionReassignmentsResponsePartition(partition_index=index)
    return AlterPartitionReassignmentsResponsePartition(
        partition_index=index, error_code=error.code, error_message=error.message
    )


# --- ListPartitionReassignments


def fail_list(
    ctx: RequestContext,
    request: ListPartitionReassignmentsRequest,
    error: ApiError,
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


@api(ListPartitionReassignmentsRequest, versions=(0, 0), fail=fail_list)
async def list_partition_reassignments(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the partitions that are being reassigned."""
    _check(ctx, Operation.DESCRIBE)
    response = ListPartitionReassignmentsResponse()
    if request.topics is None:
        named = [ListPartitionReassignmentsRequestTopic(name=name) for name in sorted(ctx.broker.image.topics)]
    else:
        named = request.topics
    for asked in named:
        indexes = None if request.topics is None else asked.partition_indexes
        if found := moving(ctx.broker.image, asked.name, indexes):
            response.topics.append(
                ListPartitionReassignmentsResponseTopic(
                    name=asked.name,
                    partitions=[
                        ListPartitionReassignmentsResponsePartition(
                            partition_index=index,
                            replicas=list(placement.replicas),
                            adding_replicas=list(placement.adding),
                            removing_replicas=list(placement.removing),
                        )
                        for index, placement in found.items()
                    ],
                )
            )
    return response


# --- UnregisterBroker


def fail_unregister(
    ctx: RequestContext,
    request: UnregisterBrokerRequest,
    error: ApiError,
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


@api(UnregisterBrokerRequest, versions=(0, 0), fail=fail_unregister, is_controllers=True)
async def unregister_broker(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Stop a broker, if it is alive, and remove it from the metadata. Unlike in Kafka, the controller is refused."""
    _check(ctx, Operation.ALTER)
    await ctx.broker.controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse()
