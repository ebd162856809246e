"""One produce request as data: built from some batches, and what its reply says of each."""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

from runnel.client.batch import Batch
from runnel.client.metadata import Topic
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from runnel.protocol.primitive import ZERO_UUID
from runnel.records.compression import Compression

ACKS_ALL = -1
ACKS_NONE = 0
_NAMES_VERSION_MAX = 12  # the last version that names topics instead of giving their ids


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
    """The request that writes these batches, at most one of each partition."""
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
    """The highest version to write in: without the id of every topic only those that carry names."""
    if limit is not None or all(topics[batch.target.topic].topic_id != ZERO_UUID for batch in batches):
        return limit
    return _NAMES_VERSION_MAX


def read_produced(
    reply: ProduceResponse, topics: Mapping[uuid.UUID, str]
) -> dict[TopicPartition, ProduceResponsePartition]:
    """The answer for each partition; `topics` has the names of those that the reply gives by id."""
    return {
        TopicPartition(topic.name or topics.get(topic.topic_id, ""), partition.index): partition
        for topic in reply.responses
        for partition in topic.partition_responses
    }
