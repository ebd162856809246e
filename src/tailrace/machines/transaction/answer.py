"""The replies to requests of transactional producers."""

from collections.abc import Mapping

from tailrace.machines.transaction.transaction import NO_IDENTITY, Identity, TopicPartition
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse
from tailrace.protocol.messages.transaction import (
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
    EndTxnResponse,
)

_INIT_KNOWS_FENCED = 4
_END_KNOWS_FENCED = 2
ADD_KNOWS_FENCED = 2
"""The versions from which clients know PRODUCER_FENCED; AddOffsetsToTxn and AddPartitionsToTxn share one."""

END_RAISES_EPOCH = 5
"""From this version of EndTxn on, each end raises the producer's epoch (KIP-890)."""


def for_version(code: ErrorCode, version: int, knows_fenced: int) -> ErrorCode:
    """Return the code for a client of this version, which may not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def accept_init(identity: Identity, ongoing: Identity = NO_IDENTITY) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.producer_epoch,
    )


def refuse_init(code: ErrorCode, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=for_version(code, version, _INIT_KNOWS_FENCED),
        producer_id=NO_IDENTITY.producer_id,
        producer_epoch=NO_IDENTITY.producer_epoch,
    )


def accept_end(identity: Identity, version: int) -> EndTxnResponse:
    """Return the reply to EndTxn, from version 5 with the producer's next identity."""
    if version < END_RAISES_EPOCH:
        identity = NO_IDENTITY
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.producer_epoch)


def refuse_end(code: ErrorCode, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=for_version(code, version, _END_KNOWS_FENCED))


def answer_add(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponseTransaction:
    """Return the result of each partition, in the form of version 4 and later."""
    topics: dict[str, AddPartitionsToTxnResponseTopic] = {}
    for (name, index), code in errors.items():
        topic = topics.setdefault(name, AddPartitionsToTxnResponseTopic(name=name))
        topic.results_by_partition.append(
            AddPartitionsToTxnResponsePartition(partition_index=index, partition_error_code=code)
        )
    return AddPartitionsToTxnResponseTransaction(transactional_id=transactional_id, topic_results=list(topics.values()))
