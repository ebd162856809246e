"""The internal topics of coordinators, which the first request that needs one creates."""

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, TRANSACTION_TOPIC
from tailrace.server.context import RequestContext


async def make_group_topic(ctx: RequestContext) -> None:
    """Make sure that groups have their topic; raise COORDINATOR_NOT_AVAILABLE if it cannot be created."""
    try:
        is_created = await ctx.broker.groups.make_topic()
    except ApiError as error:
        raise _failed(ctx, OFFSETS_TOPIC, error) from error
    if is_created:
        ctx.note_created(OFFSETS_TOPIC, ErrorCode.NONE)


async def make_transaction_topic(ctx: RequestContext) -> None:
    """Make sure that transactions have their topic; raise COORDINATOR_NOT_AVAILABLE if it cannot be created."""
    try:
        is_created = await ctx.broker.transactions.make_topic()
    except ApiError as error:
        raise _failed(ctx, TRANSACTION_TOPIC, error) from error
    if is_created:
        ctx.note_created(TRANSACTION_TOPIC, ErrorCode.NONE)


def _failed(ctx: RequestContext, topic: str, error: ApiError) -> ApiError:
    ctx.note_created(topic, error.code)
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
