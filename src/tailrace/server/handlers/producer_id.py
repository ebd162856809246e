"""InitProducerId: a producer id for idempotent producers, and one from the coordinator for transactional ones."""

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.server.transaction_caller import ask_coordinator, check_transactional_id


def fail(ctx: RequestContext, request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


@api(InitProducerIdRequest, versions=(0, 6), fail=fail)
async def init_producer_id(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return a producer id. A producer without transactions always gets a new one, even if it has one (KIP-360)."""
    if request.transactional_id is not None:
        return await _init_transactional(ctx, request, request.transactional_id)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and a producer epoch must be sent together")
    if not (
        ctx.is_allowed(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME, is_probe=True)
        or ctx.is_allowed_somewhere(Operation.WRITE, Resource.TOPIC)
    ):
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
