"""Append record batches to partitions."""

import uuid

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import INT16, INT32, INT64, RECORDS, STRING, UUID, Records, array


class ProduceRequestPartition(Message):
    """The batch for one partition, as the producer built it."""

    index: int = wire(INT32, "0+")
    records: Records = wire(RECORDS, "0+", nullable="0+")


class ProduceRequestTopic(Message):
    """The batches for one topic."""

    name: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)  # KIP-516
    partition_data: list[ProduceRequestPartition] = wire(array(ProduceRequestPartition), "0+")


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest(Message):
    """Append one batch to each of some partitions."""

    transactional_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    acks: int = wire(INT16, "0+")  # 0 expects no reply at all, 1 the leader, -1 every in-sync replica
    timeout_ms: int = wire(INT32, "0+")
    topic_data: list[ProduceRequestTopic] = wire(array(ProduceRequestTopic), "0+")


class ProduceResponseRecordError(Message):
    """One refused record, by its place in the batch."""

    batch_index: int = wire(INT32, "8+")
    batch_index_error_message: str | None = wire(STRING, "8+", nullable="8+", default=None)


class ProduceResponseLeader(Message):
    """The leader that the producer should have asked."""

    leader_id: int = wire(INT32, "10+", default=-1)
    leader_epoch: int = wire(INT32, "10+", default=-1)


class ProduceResponsePartition(Message):
    """The outcome for one batch."""

    index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    base_offset: int = wire(INT64, "0+")
    # -1 when the producer's own timestamps stand
    log_append_time_ms: int = wire(INT64, "2+", default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    # KIP-467: which records spoiled the batch
    record_errors: list[ProduceResponseRecordError] = wire(array(ProduceResponseRecordError), "8+", ignorable=True)
    error_message: str | None = wire(STRING, "8+", nullable="8+", default=None, ignorable=True)
    # KIP-951: spares the client a metadata round trip
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
    """Where each batch went, or why it did not."""

    responses: list[ProduceResponseTopic] = wire(array(ProduceResponseTopic), "0+")
    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    node_endpoints: list[ProduceResponseNode] = wire(array(ProduceResponseNode), "10+", tag=0, tagged="10+")
