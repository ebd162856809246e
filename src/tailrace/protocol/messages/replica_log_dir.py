"""The move of replicas from one log folder of a broker to another (KIP-113)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT16, INT32, STRING, array


class AlterReplicaLogDirsRequestTopic(Message):
    """Partitions of a topic."""

    name: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


class AlterReplicaLogDirsRequestDir(Message):
    """A folder and the replicas that belong there."""

    path: str = wire(STRING, "0+")
    topics: list[AlterReplicaLogDirsRequestTopic] = wire(array(AlterReplicaLogDirsRequestTopic), "0+")


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    """Move replicas of this broker to other folders."""

    dirs: list[AlterReplicaLogDirsRequestDir] = wire(array(AlterReplicaLogDirsRequestDir), "0+")


class AlterReplicaLogDirsResponsePartition(Message):
    """The outcome for one replica."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class AlterReplicaLogDirsResponseTopic(Message):
    """The outcomes for the replicas of a topic."""

    topic_name: str = wire(STRING, "0+")
    partitions: list[AlterReplicaLogDirsResponsePartition] = wire(array(AlterReplicaLogDirsResponsePartition), "0+")


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """The outcome for each replica."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[AlterReplicaLogDirsResponseTopic] = wire(array(AlterReplicaLogDirsResponseTopic), "0+")
