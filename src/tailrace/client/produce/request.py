"""Produce requests, and the answers for each partition in a reply."""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tailrace.client.metadata import Topic
from tailrace.client.produce.batch import Batch
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.records.compression import Compression

ACKS_NONE = 0
STALE_SEQUENCE = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The broker does not expect the batch's number, or does not know the producer."""

NOT_WRITTEN = STALE_SEQUENCE | {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
"""Errors of attempts that a broker cannot have written: it checks all this before it appends.

A broker may give any other error after it has appended: NOT_LEADER_OR_FOLLOWER if it resigns while it waits for its
followers, UNKNOWN_TOPIC_OR_PARTITION if the topic is deleted meanwhile, KAFKA_STORAGE_ERROR if a flush fails.
"""

MAY_BE_WRITTEN = "the records may be in the log, because an attempt had no definite answer"
"""The end of an error's message if it is unknown whether the records are written."""

_NAMES_VERSION_MAX = 12  # the last version that has topic names instead of ids


def build_produce(
    batches: Sequence[Batch],
    topics: Mapping[str, Topic],
    *,
    acks: int,
    timeout_ms: int,
    compression: Compression,
    level: int | None,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return the request that writes these batches, at most one of each partition."""
    by_topic: dict[str, list[ProduceRequestPartition]] = defaultdict(list)
    for batch in batches:
        data = batch.data(compression, level, is_transactional=transactional_id is not None)
        by_topic[batch.target.topic].append(ProduceRequestPartition(index=batch.target.partition, records=data))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequestTopic(name=name, topic_id=topics[name].topic_id, partition_data=partitions)
            for name, partitions in by_topic.items()
        ],
    )


def produce_version_max(batches: Sequence[Batch], topics: Mapping[str, Topic], limit: int | None = None) -> int | None:
    """Return the highest version for these topics: if an id is unknown, one that has topic names."""
    if limit is not None or all(topics[batch.target.topic].topic_id != ZERO_UUID for batch in batches):
        return limit
    return _NAMES_VERSION_MAX


def read_produced(
    reply: ProduceResponse, topics: Mapping[uuid.UUID, str]
) -> dict[TopicPartition, ProduceResponsePartition]:
    """Return the answer for each partition; `topics` has the names of the topic ids."""
    return {
        TopicPartition(topic.name or topics.get(topic.topic_id, ""), partition.index): partition
        for topic in reply.responses
        for partition in topic.partition_responses
    }
