"""InitProducerId: an identity for idempotent producers, and for transactional ones from their coordinator."""

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from runnel.server.api import api
from runnel.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from runnel.server.transaction_caller import ask_coordinator, check_transactional_id


def fail(ctx: RequestContext, request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:  # noqa: ARG001
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


@api(InitProducerIdRequest, versions=(0, 6), fail=fail)
async def init_producer_id(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give a new id; without transactions a producer that shows an old one (KIP-360) gets a new one too."""
    if request.transactional_id is not None:
        return await _init_transactional(ctx, request, request.transactional_id)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if not ctx.is_allowed(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return InitProducerIdResponse(producer_id=await ctx.broker.producer_ids.next(), producer_epoch=0)


async def _init_transactional(
    ctx: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    check_transactional_id(ctx, Operation.WRITE, transactional_id)
    if request.enable2_pc:
        check_transactional_id(ctx, Operation.TWO_PHASE_COMMIT, transactional_id)
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    await ctx.broker.producer_ids.ready()
    return await ask_coordinator(
        ctx,
        transactional_id,
        InitProducerIdResponse,
        lambda machine, now_ms, token: machine.decide_init(now_ms, token, request, ctx.version),
    )
