"""What the handlers of transactions share: who may ask, and waiting for a coordinator's reply."""

from typing import TypeVar, cast

from runnel.base.invariant import invariant
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.runtime.transaction_coordinator import Decide
from runnel.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

R = TypeVar("R", bound=Message)


def check_transactional_id(ctx: RequestContext, operation: Operation, transactional_id: str) -> None:
    """Raise ApiError unless the principal may do this to the transactional id."""
    if not ctx.is_allowed(operation, Resource.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def check_cluster_action(ctx: RequestContext) -> None:
    """Raise ApiError unless the principal may act as a broker."""
    if not ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def ask_coordinator(ctx: RequestContext, transactional_id: str, kind: type[R], decide: Decide) -> R:
    """The coordinator's reply; ApiError if it is elsewhere, loads or cannot write."""
    response = await ctx.broker.transactions.ask(transactional_id, decide)
    invariant(isinstance(response, kind), "a reply answers another request")
    return cast("R", response)
