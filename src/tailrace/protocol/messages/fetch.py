"""Messages with which consumers and followers read record batches."""

import uuid

from tailrace.base.sentinel import INT32_MAX, INT64_MAX
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Records, array


class FetchRequestReplicaState(Message):
    """The follower that fetches, and its broker epoch."""

    replica_id: int = wire(INT32, "15+", default=-1)
    replica_epoch: int = wire(INT64, "15+", default=-1)


class FetchRequestPartition(Message):
    """The position to fetch from in one partition."""

    partition: int = wire(INT32, "0+")
    # KIP-320: fences consumers that use a former leader
    current_leader_epoch: int = wire(INT32, "9+", default=-1, ignorable=True)
    fetch_offset: int = wire(INT64, "0+")
    last_fetched_epoch: int = wire(INT32, "12+", default=-1)  # KIP-595: lets the leader detect diverging logs
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = wire(INT32, "0+")
    replica_directory_id: uuid.UUID = wire(UUID, "17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int = wire(INT64, "18+", default=INT64_MAX, tag=1, tagged="18+", ignorable=True)  # KIP-1166


class FetchRequestTopic(Message):
    """The partitions to fetch of one topic."""

    topic: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: list[FetchRequestPartition] = wire(array(FetchRequestPartition), "0+")


class FetchRequestForgottenTopic(Message):
    """Partitions to remove from the session."""

    topic: str = wire(STRING, "7-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: list[int] = wire(array(INT32), "7+")


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest(Message):
    """Fetch from partitions, waiting for enough bytes. In a session, only changes are sent (KIP-227)."""

    cluster_id: str | None = wire(STRING, "12+", nullable="12+", default=None, tag=0, tagged="12+", ignorable=True)
    replica_id: int = wire(INT32, "0-14", default=-1)  # -1 for a consumer; from version 15 it is in replica_state
    # KIP-903; None for a consumer
    replica_state: FetchRequestReplicaState | None = wire(FetchRequestReplicaState, "15+", tag=1, tagged="15+")
    max_wait_ms: int = wire(INT32, "0+")
    min_bytes: int = wire(INT32, "0+")
    # KIP-74: the first batch is returned whole even if it is larger
    max_bytes: int = wire(INT32, "3+", default=INT32_MAX, ignorable=True)
    isolation_level: int = wire(INT8, "4+", ignorable=True)
    session_id: int = wire(INT32, "7+", ignorable=True)
    session_epoch: int = wire(INT32, "7+", default=-1, ignorable=True)  # -1 for no session, 0 creates one
    topics: list[FetchRequestTopic] = wire(array(FetchRequestTopic), "0+")
    forgotten_topics_data: list[FetchRequestForgottenTopic] = wire(array(FetchRequestForgottenTopic), "7+")
    rack_id: str = wire(STRING, "11+", ignorable=True)  # KIP-392: a nearby replica may serve the fetch


class FetchResponseEpochEndOffset(Message):
    """The largest epoch that both logs share, and its end offset."""

    epoch: int = wire(INT32, "12+", default=-1)
    end_offset: int = wire(INT64, "12+", default=-1)


class FetchResponseLeader(Message):
    """The current leader, after a fetch from another broker."""

    leader_id: int = wire(INT32, "12+", default=-1)
    leader_epoch: int = wire(INT32, "12+", default=-1)


class FetchResponseSnapshotId(Message):
    """The snapshot that replaces the records before the log start offset."""

    end_offset: int = wire(INT64, "0+", default=-1)
    epoch: int = wire(INT32, "0+", default=-1)


class FetchResponseAbortedTransaction(Message):
    """A transaction in these batches that a `read_committed` consumer must skip."""

    producer_id: int = wire(INT64, "4+")
    first_offset: int = wire(INT64, "4+")


class FetchResponsePartition(Message):
    """The batches of one partition, with the offsets of its log."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    high_watermark: int = wire(INT64, "0+")
    last_stable_offset: int = wire(INT64, "4+", default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    # KIP-595: the follower truncates to this point
    diverging_epoch: FetchResponseEpochEndOffset | None = wire(FetchResponseEpochEndOffset, "12+", tag=0, tagged="12+")
    # KIP-951: saves the client a metadata request
    current_leader: FetchResponseLeader | None = wire(FetchResponseLeader, "12+", tag=1, tagged="12+")
    snapshot_id: FetchResponseSnapshotId | None = wire(FetchResponseSnapshotId, "12+", tag=2, tagged="12+")
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = wire(
        array(FetchResponseAbortedTransaction), "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = wire(INT32, "11+", default=-1)  # KIP-392
    records: Records = wire(RECORDS, "0+", nullable="0+")


class FetchResponseTopic(Message):
    """The batches of one topic."""

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
    """The fetched batches, as they are stored."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "7+", ignorable=True)
    session_id: int = wire(INT32, "7+")
    responses: list[FetchResponseTopic] = wire(array(FetchResponseTopic), "0+")
    node_endpoints: list[FetchResponseNode] = wire(array(FetchResponseNode), "16+", tag=0, tagged="16+")
