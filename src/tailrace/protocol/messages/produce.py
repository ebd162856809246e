"""Messages that append record batches to partitions."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT16, INT32, INT64, RECORDS, STRING, UUID, Records, array

MIRROR_TAG = 10_000  # of an extension of Tailrace, far from the tags that Kafka gives, from 0 on


class ProduceRequestPartition(Message):
    """The batch for one partition, as the producer built it."""

    index: int = wire(INT32, "0+")
    records: Records = wire(RECORDS, "0+", nullable="0+")
    # of mirrored batches: they are all that the other cluster has from this offset on
    mirror_from_offset: int = wire(INT64, "9+", default=-1, tag=MIRROR_TAG, tagged="9+")


class ProduceRequestTopic(Message):
    """The batches for one topic."""

    name: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)  # KIP-516
    partition_data: list[ProduceRequestPartition] = wire(array(ProduceRequestPartition), "0+")


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest(Message):
    """Append one batch to each partition."""

    transactional_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    acks: int = wire(INT16, "0+")  # 0 for no reply, 1 after the leader, -1 after all in-sync replicas
    timeout_ms: int = wire(INT32, "0+")
    topic_data: list[ProduceRequestTopic] = wire(array(ProduceRequestTopic), "0+")
    # the topics' `tailrace.mirror.claim` if the batches are another cluster's and keep their offsets (docs/MIRROR.md)
    mirror_claim: str | None = wire(STRING, "9+", nullable="9+", default=None, tag=MIRROR_TAG, tagged="9+")


class ProduceResponseRecordError(Message):
    """A rejected record, by its index in the batch."""

    batch_index: int = wire(INT32, "8+")
    batch_index_error_message: str | None = wire(STRING, "8+", nullable="8+", default=None)


class ProduceResponseLeader(Message):
    """The current leader, after a request to another broker."""

    leader_id: int = wire(INT32, "10+", default=-1)
    leader_epoch: int = wire(INT32, "10+", default=-1)


class ProduceResponsePartition(Message):
    """The outcome for one batch."""

    index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    base_offset: int = wire(INT64, "0+")
    # -1 if the producer's timestamps are kept
    log_append_time_ms: int = wire(INT64, "2+", default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    # KIP-467: the invalid records of the batch
    record_errors: list[ProduceResponseRecordError] = wire(array(ProduceResponseRecordError), "8+", ignorable=True)
    error_message: str | None = wire(STRING, "8+", nullable="8+", default=None, ignorable=True)
    # KIP-951: saves the client a metadata request
    current_leader: ProduceResponseLeader | None = wire(ProduceResponseLeader, "10+", tag=0, tagged="10+")


class ProduceResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partition_responses: list[ProduceResponsePartition] = wire(array(ProduceResponsePartition), "0+")


class ProduceResponseNode(Message):
    """The address of a leader named in this response."""

    node_id: int = wire(INT32, "10+")
    host: str = wire(STRING, "10+")
    port: int = wire(INT32, "10+")
    rack: str | None = wire(STRING, "10+", nullable="10+", default=None)


@message(key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """The offset of each batch, or the error."""

    responses: list[ProduceResponseTopic] = wire(array(ProduceResponseTopic), "0+")
    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    node_endpoints: list[ProduceResponseNode] = wire(array(ProduceResponseNode), "10+", tag=0, tagged="10+")
