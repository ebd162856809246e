"""Read record batches from partitions, for consumers and followers alike."""

import uuid

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import (
    INT8,
    INT16,
    INT32,
    INT32_MAX,
    INT64,
    INT64_MAX,
    RECORDS,
    STRING,
    UUID,
    Records,
    array,
)


class FetchRequestReplicaState(Message):
    """Which follower asks, and in which of its lives."""

    replica_id: int = wire(INT32, "15+", default=-1)
    replica_epoch: int = wire(INT64, "15+", default=-1)


class FetchRequestPartition(Message):
    """Where to read on in one partition."""

    partition: int = wire(INT32, "0+")
    # KIP-320: fences readers of a leader that was deposed
    current_leader_epoch: int = wire(INT32, "9+", default=-1, ignorable=True)
    fetch_offset: int = wire(INT64, "0+")
    last_fetched_epoch: int = wire(INT32, "12+", default=-1)  # KIP-595: lets the leader notice diverging logs
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = wire(INT32, "0+")
    replica_directory_id: uuid.UUID = wire(UUID, "17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int = wire(INT64, "18+", default=INT64_MAX, tag=1, tagged="18+", ignorable=True)  # KIP-1166


class FetchRequestTopic(Message):
    """The partitions to read of one topic."""

    topic: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: list[FetchRequestPartition] = wire(array(FetchRequestPartition), "0+")


class FetchRequestForgottenTopic(Message):
    """Partitions that leave the session."""

    topic: str = wire(STRING, "7-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: list[int] = wire(array(INT32), "7+")


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest(Message):
    """Read from partitions, waiting a while for enough bytes; within a session only what changed is named (KIP-227)."""

    cluster_id: str | None = wire(STRING, "12+", nullable="12+", default=None, tag=0, tagged="12+", ignorable=True)
    replica_id: int = wire(INT32, "0-14", default=-1)  # -1 for a consumer; from version 15 it is in replica_state
    # KIP-903; None for a consumer
    replica_state: FetchRequestReplicaState | None = wire(FetchRequestReplicaState, "15+", tag=1, tagged="15+")
    max_wait_ms: int = wire(INT32, "0+")
    min_bytes: int = wire(INT32, "0+")
    # KIP-74: the first batch comes whole even if it is larger
    max_bytes: int = wire(INT32, "3+", default=INT32_MAX, ignorable=True)
    isolation_level: int = wire(INT8, "4+", ignorable=True)
    session_id: int = wire(INT32, "7+", ignorable=True)
    session_epoch: int = wire(INT32, "7+", default=-1, ignorable=True)  # -1 opens no session, 0 opens one
    topics: list[FetchRequestTopic] = wire(array(FetchRequestTopic), "0+")
    forgotten_topics_data: list[FetchRequestForgottenTopic] = wire(array(FetchRequestForgottenTopic), "7+")
    rack_id: str = wire(STRING, "11+", ignorable=True)  # KIP-392: a replica nearby may serve it


class FetchResponseEpochEndOffset(Message):
    """The largest epoch that both logs share, and where it ends."""

    epoch: int = wire(INT32, "12+", default=-1)
    end_offset: int = wire(INT64, "12+", default=-1)


class FetchResponseLeader(Message):
    """The leader that the reader should have asked."""

    leader_id: int = wire(INT32, "12+", default=-1)
    leader_epoch: int = wire(INT32, "12+", default=-1)


class FetchResponseSnapshotId(Message):
    """The snapshot that stands for the records before the log start."""

    end_offset: int = wire(INT64, "0+", default=-1)
    epoch: int = wire(INT32, "0+", default=-1)


class FetchResponseAbortedTransaction(Message):
    """A transaction in these batches that a committed reader must leave out."""

    producer_id: int = wire(INT64, "4+")
    first_offset: int = wire(INT64, "4+")


class FetchResponsePartition(Message):
    """What one partition had, with the bounds of its log."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    high_watermark: int = wire(INT64, "0+")
    last_stable_offset: int = wire(INT64, "4+", default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    # KIP-595: where the follower must truncate to
    diverging_epoch: FetchResponseEpochEndOffset | None = wire(FetchResponseEpochEndOffset, "12+", tag=0, tagged="12+")
    # KIP-951: spares the client a metadata round trip
    current_leader: FetchResponseLeader | None = wire(FetchResponseLeader, "12+", tag=1, tagged="12+")
    snapshot_id: FetchResponseSnapshotId | None = wire(FetchResponseSnapshotId, "12+", tag=2, tagged="12+")
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = wire(
        array(FetchResponseAbortedTransaction), "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = wire(INT32, "11+", default=-1)  # KIP-392
    records: Records = wire(RECORDS, "0+", nullable="0+")


class FetchResponseTopic(Message):
    """What one topic had."""

    topic: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: list[FetchResponsePartition] = wire(array(FetchResponsePartition), "0+")


class FetchResponseNode(Message):
    """The address of a leader named in this response."""

    node_id: int = wire(INT32, "16+")
    host: str = wire(STRING, "16+")
    port: int = wire(INT32, "16+")
    rack: str | None = wire(STRING, "16+", nullable="16+", default=None)


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    """The batches that were there, as they are stored."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "7+", ignorable=True)
    session_id: int = wire(INT32, "7+")
    responses: list[FetchResponseTopic] = wire(array(FetchResponseTopic), "0+")
    node_endpoints: list[FetchResponseNode] = wire(array(FetchResponseNode), "16+", tag=0, tagged="16+")
