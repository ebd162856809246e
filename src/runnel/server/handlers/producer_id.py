"""InitProducerId: an identity for idempotent producers.

Missing: transactional ids. A request that carries one is refused with UNSUPPORTED_VERSION,
which clients report at once instead of trying again.
"""

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from runnel.server.api import api
from runnel.server.context import CLUSTER_NAME, Operation, RequestContext, Resource


def fail(ctx: RequestContext, request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:  # noqa: ARG001
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


@api(InitProducerIdRequest, versions=(0, 5), fail=fail, missing="transactional ids")
async def init_producer_id(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give a new id; without transactions a producer that shows an old one (KIP-360) gets a new one too."""
    if request.transactional_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "transactions are not supported yet")
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if not ctx.is_allowed(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return InitProducerIdResponse(producer_id=await ctx.broker.producer_ids.next(), producer_epoch=0)
