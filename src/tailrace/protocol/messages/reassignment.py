"""Messages that elect leaders, reassign partitions and unregister brokers."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, STRING, array


class ElectLeadersRequestTopic(Message):
    """The partitions of one topic whose leaders are elected."""

    topic: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    """Elect the leaders of some partitions, or of all (KIP-460)."""

    election_type: int = wire(INT8, "1+")  # 0 preferred; 1 unclean: any live replica, if there is no leader
    topic_partitions: list[ElectLeadersRequestTopic] | None = wire(array(ElectLeadersRequestTopic), "0+", nullable="0+")
    timeout_ms: int = wire(INT32, "0+", default=60000)


class ElectLeadersResponsePartition(Message):
    """The result of one election."""

    partition_id: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")


class ElectLeadersResponseTopic(Message):
    """The results of one topic."""

    topic: str = wire(STRING, "0+")
    partition_result: list[ElectLeadersResponsePartition] = wire(array(ElectLeadersResponsePartition), "0+")


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """The results of the elections. If all partitions were requested, those that needed none are left out."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "1+")
    replica_election_results: list[ElectLeadersResponseTopic] = wire(array(ElectLeadersResponseTopic), "0+")


class AlterPartitionReassignmentsRequestPartition(Message):
    """The target replicas of a partition; null cancels a reassignment."""

    partition_index: int = wire(INT32, "0+")
    replicas: list[int] | None = wire(array(INT32), "0+", nullable="0+", default=None)


class AlterPartitionReassignmentsRequestTopic(Message):
    """The partitions of one topic to reassign."""

    name: str = wire(STRING, "0+")
    partitions: list[AlterPartitionReassignmentsRequestPartition] = wire(
        array(AlterPartitionReassignmentsRequestPartition), "0+"
    )


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    """Reassign partitions to other brokers (KIP-455)."""

    timeout_ms: int = wire(INT32, "0+", default=60000)
    allow_replication_factor_change: bool = wire(BOOLEAN, "1+", default=True)  # KIP-860
    topics: list[AlterPartitionReassignmentsRequestTopic] = wire(array(AlterPartitionReassignmentsRequestTopic), "0+")


class AlterPartitionReassignmentsResponsePartition(Message):
    """Whether the reassignment of a partition has started."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")


class AlterPartitionReassignmentsResponseTopic(Message):
    """The partitions of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[AlterPartitionReassignmentsResponsePartition] = wire(
        array(AlterPartitionReassignmentsResponsePartition), "0+"
    )


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """Which reassignments have started."""

    throttle_time_ms: int = wire(INT32, "0+")
    allow_replication_factor_change: bool = wire(BOOLEAN, "1+", default=True, ignorable=True)
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    responses: list[AlterPartitionReassignmentsResponseTopic] = wire(
        array(AlterPartitionReassignmentsResponseTopic), "0+"
    )


class ListPartitionReassignmentsRequestTopic(Message):
    """The requested partitions of one topic."""

    name: str = wire(STRING, "0+")
    partition_indexes: list[int] = wire(array(INT32), "0+")


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """Request the partitions that are being reassigned; null requests all."""

    timeout_ms: int = wire(INT32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsRequestTopic] | None = wire(
        array(ListPartitionReassignmentsRequestTopic), "0+", nullable="0+", default=None
    )


class ListPartitionReassignmentsResponsePartition(Message):
    """A partition that is being reassigned: all its replicas, and those that are added and removed."""

    partition_index: int = wire(INT32, "0+")
    replicas: list[int] = wire(array(INT32), "0+")
    adding_replicas: list[int] = wire(array(INT32), "0+")
    removing_replicas: list[int] = wire(array(INT32), "0+")


class ListPartitionReassignmentsResponseTopic(Message):
    """The partitions of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[ListPartitionReassignmentsResponsePartition] = wire(
        array(ListPartitionReassignmentsResponsePartition), "0+"
    )


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """The partitions that are being reassigned."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    topics: list[ListPartitionReassignmentsResponseTopic] = wire(array(ListPartitionReassignmentsResponseTopic), "0+")


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    """Remove a broker that was stopped permanently from the cluster."""

    broker_id: int = wire(INT32, "0+")


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """Whether the broker was removed."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
