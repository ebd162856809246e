"""FindCoordinator: the broker that keeps the state of a group or a transactional id, the leader of its partition.

The first request creates the internal topic of groups or of transactions.
"""

import asyncio
from enum import IntEnum

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.image import Node
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_for
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.coordinator_topic import make_group_topic, make_transaction_topic

_FIRST_BATCHED_VERSION = 4  # KIP-699


class KeyType(IntEnum):
    """The type of a key."""

    GROUP = 0
    TRANSACTION = 1


_RESOURCES = {KeyType.GROUP: Resource.GROUP, KeyType.TRANSACTION: Resource.TRANSACTIONAL_ID}
_TOPICS = {KeyType.GROUP: OFFSETS_TOPIC, KeyType.TRANSACTION: TRANSACTION_TOPIC}
_REFUSALS = {
    KeyType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    KeyType.TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def fail(ctx: RequestContext, request: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    return _reply(ctx, [_refusal(key, error) for key in _keys(ctx, request)])


@api(FindCoordinatorRequest, versions=(0, 6), fail=fail, missing="share groups")
async def find_coordinator(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find the coordinator of each key separately."""
    return _reply(ctx, [await _find(ctx, request, key) for key in _keys(ctx, request)])


def _keys(ctx: RequestContext, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if ctx.version >= _FIRST_BATCHED_VERSION else [request.key]


async def _find(ctx: RequestContext, request: FindCoordinatorRequest, key: str) -> FindCoordinatorResponseCoordinator:
    await asyncio.sleep(0)  # the hash of a long key takes a millisecond, and a request may name thousands
    try:
        key_type = KeyType(request.key_type)
    except ValueError:
        return _refusal(
            key, ApiError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {request.key_type}")
        )
    if not ctx.is_allowed(Operation.DESCRIBE, _RESOURCES[key_type], key):
        return _refusal(key, ApiError(_REFUSALS[key_type]))
    try:
        await (make_group_topic(ctx) if key_type is KeyType.GROUP else make_transaction_topic(ctx))
    except ApiError as error:
        return _refusal(key, error)
    if (node := _leader(ctx, _TOPICS[key_type], key)) is None:
        return _refusal(key, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no leader now"))
    return FindCoordinatorResponseCoordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)


def _leader(ctx: RequestContext, topic_name: str, key: str) -> Node | None:
    topic = ctx.broker.image.topics.get(topic_name)
    if topic is None:
        return None
    state = topic.leadership.get(partition_for(key, topic.partition_count))
    return next((node for node in ctx.nodes if state is not None and node.node_id == state.leader), None)


def _refusal(key: str, error: ApiError) -> FindCoordinatorResponseCoordinator:
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=NO_BROKER, host="", port=-1, error_code=error.code, error_message=error.message
    )


def _reply(ctx: RequestContext, found: list[FindCoordinatorResponseCoordinator]) -> FindCoordinatorResponse:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        # As in Kafka, success has a text in these versions; it is empty in later ones.
        error_message=only.error_message or ErrorCode(only.error_code).name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
