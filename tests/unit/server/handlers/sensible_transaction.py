"""Sensible requests about transactions. Each version has a transactional id of its own, because it moves its epoch."""

from uuid import UUID

from tests.unit.server.handlers.peer import Peer
from tests.unit.server.handlers.sensible_about import About, builds

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message
from tailrace.protocol.messages import producer, transaction, transaction_admin, transaction_marker

_GROUP = "offsets"  # of `sensible`
_OWNERS = [
    *((ApiKey.ADD_PARTITIONS_TO_TXN, version) for version in range(6)),
    *((ApiKey.ADD_OFFSETS_TO_TXN, version) for version in range(5)),
    *((ApiKey.END_TXN, version) for version in range(6)),
    *((ApiKey.TXN_OFFSET_COMMIT, version) for version in range(7)),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0),
]


def _identity(key: ApiKey, version: int) -> tuple[str, int]:
    """The transactional id of an API's version, and the producer id that `begin_transactions` gets for it."""
    return f"{key.name}-{version}", _OWNERS.index((key, version))


async def begin_transactions(client: Peer) -> None:
    """Make the transactional ids, on a broker that has given no producer id yet; what is to be ended begins."""
    await client.broker.transactions.make_topic()
    await client.broker.groups.make_topic()
    for number, (key, version) in enumerate(_OWNERS):
        name = f"{key.name}-{version}"
        request = producer.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=900_000)
        reply = await client.ask(request, 5)
        assert (reply.error_code, reply.producer_id) == (0, number)
        if key is ApiKey.END_TXN:
            topics = [transaction.AddPartitionsToTxnRequestTopic(name="t", partitions=[0])]
            await client.ask(_add(name, number, topics), 3)
        if key is ApiKey.TXN_OFFSET_COMMIT:
            offsets = transaction.AddOffsetsToTxnRequest(transactional_id=name, producer_id=number, group_id=_GROUP)
            assert (await client.ask(offsets, 3)).error_code == 0


def _add(name: str, producer_id: int, topics: list[transaction.AddPartitionsToTxnRequestTopic]) -> Message:
    return transaction.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


@builds(ApiKey.ADD_PARTITIONS_TO_TXN)
def _add_partitions(about: About) -> Message:
    name, producer_id = _identity(ApiKey.ADD_PARTITIONS_TO_TXN, about.version)
    topics = [transaction.AddPartitionsToTxnRequestTopic(name=about.name, partitions=[0])]
    if about.version < 4:
        return _add(name, producer_id, topics)
    asked = transaction.AddPartitionsToTxnRequestTransaction(
        transactional_id=name, producer_id=producer_id, producer_epoch=0, topics=topics
    )
    return transaction.AddPartitionsToTxnRequest(transactions=[asked])


@builds(ApiKey.TXN_OFFSET_COMMIT)
def _txn_offset_commit(about: About) -> Message:
    name, producer_id = _identity(ApiKey.TXN_OFFSET_COMMIT, about.version)
    return transactional_commit(_GROUP, about.name, about.topic_id, about.version, name, producer_id)


def transactional_commit(
    group_id: str, name: str, topic_id: UUID, version: int, transactional_id: str = "x", producer_id: int = 7
) -> transaction.TxnOffsetCommitRequest:
    """The offset 1 in partition 0 of a topic."""
    partition = transaction.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="note"
    )
    by_id = version >= 6
    topic = transaction.TxnOffsetCommitRequestTopic(
        name="" if by_id else name, topic_id=topic_id if by_id else UUID(int=0), partitions=[partition]
    )
    return transaction.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=0,
        topics=[topic],
    )


@builds(ApiKey.ADD_OFFSETS_TO_TXN)
def _add_offsets(about: About) -> Message:
    name, producer_id = _identity(ApiKey.ADD_OFFSETS_TO_TXN, about.version)
    return transaction.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=0, group_id="g"
    )


@builds(ApiKey.END_TXN)
def _end(about: About) -> Message:
    name, producer_id = _identity(ApiKey.END_TXN, about.version)
    return transaction.EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=0, committed=True)


@builds(ApiKey.WRITE_TXN_MARKERS)
def _write_markers(about: About) -> Message:
    topics = [transaction_marker.WriteTxnMarkersRequestTopic(name=about.name, partition_indexes=[0])]
    marker = transaction_marker.WriteTxnMarkersRequestMarker(
        producer_id=1000, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0
    )
    return transaction_marker.WriteTxnMarkersRequest(markers=[marker])


@builds(ApiKey.DESCRIBE_TRANSACTIONS)
def _describe(about: About) -> Message:
    name, _ = _identity(ApiKey.DESCRIBE_TRANSACTIONS, about.version)
    return transaction_admin.DescribeTransactionsRequest(transactional_ids=[name])


@builds(ApiKey.LIST_TRANSACTIONS)
def _list(_about: About) -> Message:
    return transaction_admin.ListTransactionsRequest()


@builds(ApiKey.DESCRIBE_PRODUCERS)
def _describe_producers(about: About) -> Message:
    topics = [producer.DescribeProducersRequestTopic(name=about.name, partition_indexes=[0])]
    return producer.DescribeProducersRequest(topics=topics)
