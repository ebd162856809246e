"""The steps that handlers of transactions share: authorisation, and the wait for the coordinator's reply."""

from typing import TypeVar, cast

from tailrace.base.invariant import invariant
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.runtime.transaction.coordinator import Decide
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

R = TypeVar("R", bound=Message)


def check_transactional_id(ctx: RequestContext, operation: Operation, transactional_id: str) -> None:
    """Raise `ApiError` unless the principal is allowed the operation on the transactional id."""
    if not ctx.is_allowed(operation, Resource.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def check_cluster_action(ctx: RequestContext) -> None:
    """Raise `ApiError` unless the principal may act as a broker."""
    if not ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def ask_coordinator(ctx: RequestContext, transactional_id: str, kind: type[R], decide: Decide) -> R:
    """Wait for the coordinator's reply; raise `ApiError` if it is on another broker, loading, or cannot write."""
    response = await ctx.broker.transactions.ask(transactional_id, decide)
    invariant(isinstance(response, kind), "a reply answers another request")
    return cast("R", response)
