"""The steps that handlers of groups share: authorisation, the identity of the client, the wait for the reply."""

from typing import TypeVar, cast

from tailrace.base.invariant import invariant
from tailrace.machines.group.group import Caller
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.runtime.coordinator.shard import Answer
from tailrace.runtime.group.coordinator import Decide
from tailrace.runtime.transaction.guard import TransactionGuard
from tailrace.server.context import Operation, RequestContext, Resource

R = TypeVar("R", bound=Message)


def check_group(ctx: RequestContext, operation: Operation, group_id: str) -> None:
    """Raise `ApiError` unless the principal is allowed the operation on the group."""
    if not ctx.is_allowed(operation, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def caller_of(ctx: RequestContext) -> Caller:
    """Return the identity of the client; the host has the form of a Java address without a name."""
    return Caller(ctx.header.client_id or "", f"/{ctx.host}", ctx.version)


async def ask_coordinator(
    ctx: RequestContext, group_id: str, kind: type[R], decide: Decide, guard: TransactionGuard | None = None
) -> R:
    """Wait for the coordinator's reply, which may take long; stop if the client disconnects."""

    def leave(answer: Answer) -> None:
        ctx.connection.when_ending(lambda: _give_up(answer))

    response = await ctx.broker.groups.ask(group_id, decide, leave, guard)
    invariant(isinstance(response, kind), "a reply answers another request")
    return cast("R", response)


def _give_up(answer: Answer) -> None:
    if not answer.done():
        answer.set_exception(ApiError(ErrorCode.NETWORK_EXCEPTION, "the client is gone"))
