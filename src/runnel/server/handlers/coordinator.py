"""FindCoordinator: who keeps the state of a group or of a transactional id, which is the leader of its partition.

Whoever first asks has the topic made in which groups live, or transactions.
"""

from enum import IntEnum

from runnel.machines.controller.image import Node
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from runnel.runtime.coordinator_topic import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_for
from runnel.server.api import api
from runnel.server.context import Operation, RequestContext, Resource

_FIRST_BATCHED_VERSION = 4  # KIP-699
_NOBODY = -1


class KeyType(IntEnum):
    """What the key names."""

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
    """Answer for each key on its own."""
    return _reply(ctx, [await _find(ctx, request, key) for key in _keys(ctx, request)])


def _keys(ctx: RequestContext, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if ctx.version >= _FIRST_BATCHED_VERSION else [request.key]


async def _find(ctx: RequestContext, request: FindCoordinatorRequest, key: str) -> FindCoordinatorResponseCoordinator:
    try:
        key_type = KeyType(request.key_type)
    except ValueError:
        return _refusal(
            key, ApiError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {request.key_type}")
        )
    if not ctx.is_allowed(Operation.DESCRIBE, _RESOURCES[key_type], key):
        return _refusal(key, ApiError(_REFUSALS[key_type]))
    shards = ctx.broker.groups if key_type is KeyType.GROUP else ctx.broker.transactions
    try:
        await shards.make_topic()
    except ApiError as error:
        return _refusal(key, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
    if (node := _leader(ctx, _TOPICS[key_type], key)) is None:
        return _refusal(key, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody coordinates it now"))
    return FindCoordinatorResponseCoordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)


def _leader(ctx: RequestContext, topic_name: str, key: str) -> Node | None:
    topic = ctx.broker.image.topics.get(topic_name)
    if topic is None:
        return None
    state = topic.leadership.get(partition_for(key, topic.partition_count))
    return next((node for node in ctx.nodes if state is not None and node.node_id == state.leader), None)


def _refusal(key: str, error: ApiError) -> FindCoordinatorResponseCoordinator:
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=_NOBODY, host="", port=-1, error_code=error.code, error_message=error.message
    )


def _reply(ctx: RequestContext, found: list[FindCoordinatorResponseCoordinator]) -> FindCoordinatorResponse:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
