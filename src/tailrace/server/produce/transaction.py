"""The transactional batches of a produce request, about which the transaction coordinator may have to be asked."""

from collections.abc import Sequence

from tailrace.machines.transaction.transaction import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.transaction.guard import NO_GUARD
from tailrace.runtime.transaction.verification import Question
from tailrace.server.context import RequestContext
from tailrace.server.produce.batch import ValidatedBatch, refuse

_FIRST_VERSION_WITH_ABORTABLE = 11  # the client knows TRANSACTION_ABORTABLE (KIP-890)
_FIRST_VERSION_THAT_ADDS = 12  # the first batch adds its partition to the transaction (KIP-890)

_TRY_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


async def begin_transactions(
    ctx: RequestContext, transactional_id: str, batches: Sequence[ValidatedBatch]
) -> list[ValidatedBatch]:
    """Verify the transactional batches that begin a transaction in their partition; return the batches that pass.

    Raises `ApiError` if the batches are of more than one producer.
    """
    headers = [batch.valid.header for batch in batches if batch.valid.header.is_transactional]
    identities = {(header.producer_id, header.producer_epoch) for header in headers}
    if len(identities) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional records are of several producers")
    is_adding = ctx.version >= _FIRST_VERSION_THAT_ADDS
    if not ctx.broker.verification.is_needed(is_adding=is_adding):
        return [batch._replace(guard=NO_GUARD) if batch.valid.header.is_transactional else batch for batch in batches]
    begun = [guarded for batch in batches if (guarded := _begin(ctx, batch, is_adding=is_adding)) is not None]
    asking = list(dict.fromkeys(_key(batch) for batch in begun if batch.guard is not None))
    if not asking:
        return begun
    (identity,) = identities
    knows_abortable = ctx.version >= _FIRST_VERSION_WITH_ABORTABLE
    question = Question(transactional_id, *identity, asking, is_adding, knows_abortable)
    codes = await ctx.broker.verification.ask(question)
    passed = []
    for batch in begun:
        code = ErrorCode.NONE if batch.guard is None else codes.get(_key(batch), ErrorCode.NONE)
        if code is ErrorCode.NONE:
            passed.append(batch)
        else:
            refuse(batch.reply, _refusal(code, is_adding=is_adding))
    return passed


def _key(batch: ValidatedBatch) -> TopicPartition:
    return batch.partition.topic, batch.partition.index


def _begin(ctx: RequestContext, batch: ValidatedBatch, *, is_adding: bool) -> ValidatedBatch | None:
    """Return the batch, with a guard if the coordinator has to be asked about it; None if it is refused."""
    if not batch.valid.header.is_transactional:
        return batch
    try:
        now_ms = ctx.broker.clock.now_ms()
        guard = batch.partition.begin_transaction(batch.valid.header, is_adding=is_adding, now_ms=now_ms)
    except ApiError as error:
        refuse(batch.reply, error)
        return None
    return batch._replace(guard=guard)


def _refusal(code: ErrorCode, *, is_adding: bool) -> ApiError:
    """Return the error for the producer; old producers retry upon an error that has nothing to do with transactions."""
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not is_adding):
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the coordinator could not be asked: {code.name}")
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "the partition was not added to the transaction")
    return ApiError(code)
