"""What the handlers of groups share: who may ask, who asks, and waiting for a coordinator's reply."""

from typing import TypeVar, cast

from runnel.base.invariant import invariant
from runnel.machines.group.group import Caller
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.runtime.coordinator_shard import Answer
from runnel.runtime.group_coordinator import Decide
from runnel.runtime.transaction_guard import TransactionGuard
from runnel.server.context import Operation, RequestContext, Resource

R = TypeVar("R", bound=Message)


def check_group(ctx: RequestContext, operation: Operation, group_id: str) -> None:
    """Raise ApiError unless the principal may do this to the group."""
    if not ctx.is_allowed(operation, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def caller_of(ctx: RequestContext) -> Caller:
    """Who asks; the host is written as Java writes an address without a name."""
    return Caller(ctx.header.client_id or "", f"/{ctx.connection.host}", ctx.version)


async def ask_coordinator(
    ctx: RequestContext, group_id: str, kind: type[R], decide: Decide, guard: TransactionGuard | None = None
) -> R:
    """The coordinator's reply, which may come much later; a client that goes meanwhile is not waited for."""

    def leave(answer: Answer) -> None:
        ctx.connection.when_ending(lambda: _give_up(answer))

    response = await ctx.broker.groups.ask(group_id, decide, leave, guard)
    invariant(isinstance(response, kind), "a reply answers another request")
    return cast("R", response)


def _give_up(answer: Answer) -> None:
    if not answer.done():
        answer.set_exception(ApiError(ErrorCode.NETWORK_EXCEPTION, "the client is gone"))
