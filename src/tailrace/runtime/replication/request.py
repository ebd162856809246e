"""The requests of a follower to its leader."""

from uuid import UUID

from tailrace.client.connection import Connection
from tailrace.config.broker import BrokerConfig
from tailrace.machines.replica.session import SessionRequest
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseProducer,
)
from tailrace.runtime.replication.followed import Followed, Key, Wanted

_LATEST, _EARLIEST = -1, -2


def build_fetch(
    config: BrokerConfig, broker_id: int, broker_epoch: int, asked: SessionRequest[Key, Wanted]
) -> FetchRequest:
    """Build the next fetch request of a session."""
    topics: dict[UUID, FetchRequestTopic] = {}
    for (topic_id, index), item in asked.named.items():
        topic = topics.setdefault(topic_id, FetchRequestTopic(topic_id=topic_id))
        topic.partitions.append(
            FetchRequestPartition(
                partition=index,
                current_leader_epoch=item.leader_epoch,
                fetch_offset=item.fetch_offset,
                last_fetched_epoch=item.last_fetched_epoch,
                log_start_offset=item.log_start_offset,
                partition_max_bytes=config.replica_fetch_max_bytes,
            )
        )
    gone: dict[UUID, FetchRequestForgottenTopic] = {}
    for topic_id, index in asked.forgotten:
        gone.setdefault(topic_id, FetchRequestForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return FetchRequest(
        replica_state=FetchRequestReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(gone.values()),
    )


async def ask_end(connection: Connection, broker_id: int, followed: Followed) -> int:
    """Ask the leader for the end of its log."""
    return (await _ask_offset(connection, broker_id, followed, _LATEST)).offset


async def ask_start(
    connection: Connection, broker_id: int, followed: Followed
) -> tuple[int, list[ListOffsetsResponseProducer]]:
    """Ask the leader for the start of its log, and for the producers that it knows from the records before."""
    answer = await _ask_offset(connection, broker_id, followed, _EARLIEST)
    return answer.offset, answer.producers


async def _ask_offset(
    connection: Connection, broker_id: int, followed: Followed, timestamp: int
) -> ListOffsetsResponsePartition:
    partition = followed.partition
    asked = ListOffsetsRequestPartition(
        partition_index=partition.index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=broker_id, topics=[ListOffsetsRequestTopic(name=partition.topic, partitions=[asked])]
    )
    response = await connection.request(request, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        message = f"the leader of {partition.name} does not return the start and end of its log"
        raise ApiError(ErrorCode(answer.error_code), message)
    return answer
