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


def refuse_if_abandoned(ctx: RequestContext) -> None:
    """Raise REQUEST_TIMED_OUT if the client has closed its side of the connection.

    A client that gets no reply in time closes the connection and repeats the request on another. If the network delayed
    the first request, it may arrive after the repetition and after later requests of the client, and would lower the
    group's committed offset, or end the next transaction of a producer that keeps its epoch. Apache Kafka executes it.
    Here the client cannot have been promised anything, so nothing is lost if the request is refused; a client that only
    finished sending reads the error and may ask again.
    """
    if ctx.connection.is_abandoned:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the client closed the connection before its request was served")


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
        answer.set_exception(
            ApiError(ErrorCode.NETWORK_EXCEPTION, "the client closed the connection before the coordinator replied")
        )
