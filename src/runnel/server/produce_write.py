"""One batch of a produce request on its way to one partition, and what it needs to begin a transaction there."""

from collections.abc import Sequence

from runnel.machines.transaction.transaction import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.produce import ProduceResponsePartition, ProduceResponseRecordError
from runnel.records.batch import BatchHeader
from runnel.records.validation import InvalidRecordsError, ValidBatch
from runnel.runtime.partition import Partition
from runnel.runtime.transaction_guard import NO_GUARD, TransactionGuard
from runnel.runtime.transaction_verification import Question
from runnel.server.context import RequestContext

_FIRST_VERSION_WITH_ABORTABLE = 11  # the client knows TRANSACTION_ABORTABLE (KIP-890)
_FIRST_VERSION_THAT_ADDS = 12  # its partitions come into the transaction with its first batch (KIP-890)

_TRY_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Write:
    """One batch on its way to one partition."""

    __slots__ = ("batch", "guard", "header", "partition", "reply", "valid")

    def __init__(self, reply: ProduceResponsePartition, batch: memoryview) -> None:
        self.reply = reply
        self.batch = batch
        self.partition: Partition | None = None
        self.header: BatchHeader | None = None
        self.valid: ValidBatch | None = None
        self.guard: TransactionGuard | None = None

    def refuse(self, error: ApiError) -> None:
        self.reply.error_code = error.code
        self.reply.error_message = error.message
        if isinstance(error, InvalidRecordsError):
            self.reply.record_errors = [
                ProduceResponseRecordError(batch_index=fault.record_index, batch_index_error_message=fault.message)
                for fault in error.faults
            ]


async def begin_transactions(ctx: RequestContext, transactional_id: str, writes: Sequence[Write]) -> None:
    """Have the coordinator asked for the transactional batches that begin a transaction in their partition."""
    identities = {(write.header.producer_id, write.header.producer_epoch) for write in writes if write.header}
    if len(identities) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer")
    is_adding = ctx.version >= _FIRST_VERSION_THAT_ADDS
    if not ctx.broker.verification.is_needed(is_adding=is_adding):
        for write in writes:
            write.guard = NO_GUARD
        return
    asking: dict[TopicPartition, list[Write]] = {}  # a request may name a partition twice
    for write in writes:
        if _begin(ctx, write, is_adding=is_adding) and write.partition is not None:
            asking.setdefault((write.partition.topic, write.partition.index), []).append(write)
    if not asking:
        return
    (identity,) = identities
    knows_abortable = ctx.version >= _FIRST_VERSION_WITH_ABORTABLE
    question = Question(transactional_id, *identity, list(asking), is_adding, knows_abortable)
    for key, code in (await ctx.broker.verification.ask(question)).items():
        if code is not ErrorCode.NONE:
            for write in asking[key]:
                write.refuse(_refusal(code, is_adding=is_adding))


def _begin(ctx: RequestContext, write: Write, *, is_adding: bool) -> bool:
    """Whether the coordinator has to be asked about a batch."""
    if write.partition is None or write.header is None:
        return False
    try:
        now_ms = ctx.broker.clock.now_ms()
        write.guard = write.partition.begin_transaction(write.header, is_adding=is_adding, now_ms=now_ms)
    except ApiError as error:
        write.refuse(error)
        return False
    return write.guard is not None


def _refusal(code: ErrorCode, *, is_adding: bool) -> ApiError:
    """What the producer is told; old ones try again upon an error that has nothing to do with transactions."""
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not is_adding):
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the coordinator could not be asked: {code.name}")
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "the partition was not added to the transaction")
    return ApiError(code)
