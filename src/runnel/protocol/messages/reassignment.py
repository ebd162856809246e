"""Leaders elected on request, partitions moved to other brokers, and brokers that leave the cluster."""

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BOOLEAN, INT8, INT16, INT32, STRING, array


class ElectLeadersRequestTopic(Message):
    """The partitions of one topic whose leaders shall be elected."""

    topic: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    """Elect the leaders of some partitions, or of all (KIP-460)."""

    election_type: int = wire(INT8, "1+")  # 0 the preferred replica, 1 any live one where no leader is left
    topic_partitions: list[ElectLeadersRequestTopic] | None = wire(array(ElectLeadersRequestTopic), "0+", nullable="0+")
    timeout_ms: int = wire(INT32, "0+", default=60000)


class ElectLeadersResponsePartition(Message):
    """What became of one election."""

    partition_id: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")


class ElectLeadersResponseTopic(Message):
    """The elections of one topic."""

    topic: str = wire(STRING, "0+")
    partition_result: list[ElectLeadersResponsePartition] = wire(array(ElectLeadersResponsePartition), "0+")


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """What became of the elections; partitions that needed none are left out where all were asked for."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "1+")
    replica_election_results: list[ElectLeadersResponseTopic] = wire(array(ElectLeadersResponseTopic), "0+")


class AlterPartitionReassignmentsRequestPartition(Message):
    """Where a partition shall be; null calls back what is under way."""

    partition_index: int = wire(INT32, "0+")
    replicas: list[int] | None = wire(array(INT32), "0+", nullable="0+", default=None)


class AlterPartitionReassignmentsRequestTopic(Message):
    """The partitions of one topic that shall move."""

    name: str = wire(STRING, "0+")
    partitions: list[AlterPartitionReassignmentsRequestPartition] = wire(
        array(AlterPartitionReassignmentsRequestPartition), "0+"
    )


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    """Move partitions to other brokers (KIP-455)."""

    timeout_ms: int = wire(INT32, "0+", default=60000)
    allow_replication_factor_change: bool = wire(BOOLEAN, "1+", default=True)  # KIP-860
    topics: list[AlterPartitionReassignmentsRequestTopic] = wire(array(AlterPartitionReassignmentsRequestTopic), "0+")


class AlterPartitionReassignmentsResponsePartition(Message):
    """Whether a partition is on its way."""

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
    """Which partitions are on their way."""

    throttle_time_ms: int = wire(INT32, "0+")
    allow_replication_factor_change: bool = wire(BOOLEAN, "1+", default=True, ignorable=True)
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    responses: list[AlterPartitionReassignmentsResponseTopic] = wire(
        array(AlterPartitionReassignmentsResponseTopic), "0+"
    )


class ListPartitionReassignmentsRequestTopic(Message):
    """The partitions of one topic that are asked about."""

    name: str = wire(STRING, "0+")
    partition_indexes: list[int] = wire(array(INT32), "0+")


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """Ask which partitions are on their way; null asks for all."""

    timeout_ms: int = wire(INT32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsRequestTopic] | None = wire(
        array(ListPartitionReassignmentsRequestTopic), "0+", nullable="0+", default=None
    )


class ListPartitionReassignmentsResponsePartition(Message):
    """A partition on its way: all its replicas, and which of them come and go."""

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
    """The partitions that are on their way."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    topics: list[ListPartitionReassignmentsResponseTopic] = wire(array(ListPartitionReassignmentsResponseTopic), "0+")


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    """Forget a broker that was stopped for good."""

    broker_id: int = wire(INT32, "0+")


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """Whether it is forgotten."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
