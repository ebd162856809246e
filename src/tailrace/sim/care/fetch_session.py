"""A fetch session with one broker (KIP-227), as the Java consumer keeps it."""

from collections.abc import Mapping
from uuid import UUID

from tailrace.client.cluster import Cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)

_WAIT_MS = 100
_REPLY_BYTES_MAX = 65_536


class FetchSession:
    """The partitions that a reader has named to one broker, and where it reads them."""

    def __init__(self, cluster: Cluster, node_id: int, rack: str, partition_bytes_max: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._rack = rack
        self._partition_bytes_max = partition_bytes_max
        self._session_id = 0
        self._epoch = 0
        self._named: dict[TopicPartition, tuple[int, int]] = {}

    async def fetch(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, FetchResponsePartition]:
        """Fetch from these positions; a partition without news is missing in the result."""
        wanted = {target: (offset, self._epoch_of(target)) for target, offset in positions.items()}
        changed = {target: place for target, place in wanted.items() if self._named.get(target) != place}
        gone = [target for target in self._named if target not in wanted]
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_REPLY_BYTES_MAX,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=self._topics(changed),
            forgotten_topics_data=[
                FetchRequestForgottenTopic(topic=name, topic_id=self._topic_id(name), partitions=partitions)
                for name, partitions in _by_topic(gone).items()
            ],
            rack_id=self._rack,
        )
        try:
            connection = await self._cluster.connection(self._node_id, "care")
            response = await connection.request(request, FetchResponse)
            if response.error_code:
                raise ApiError(ErrorCode(response.error_code), f"a fetch from broker {self._node_id}")
        except BaseException:
            self._session_id = self._epoch = 0
            self._named = {}
            raise
        self._session_id = response.session_id
        self._epoch = self._epoch + 1 if response.session_id else 0
        self._named = wanted if response.session_id else {}
        names = {self._topic_id(target.topic): target.topic for target in wanted}
        return {
            TopicPartition(topic.topic or names[topic.topic_id], answer.partition_index): answer
            for topic in response.responses
            for answer in topic.partitions
        }

    def _topics(self, places: Mapping[TopicPartition, tuple[int, int]]) -> list[FetchRequestTopic]:
        return [
            FetchRequestTopic(
                topic=name,
                topic_id=self._topic_id(name),
                partitions=[
                    FetchRequestPartition(
                        partition=partition,
                        current_leader_epoch=places[TopicPartition(name, partition)][1],
                        fetch_offset=places[TopicPartition(name, partition)][0],
                        partition_max_bytes=self._partition_bytes_max,
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in _by_topic(places).items()
        ]

    def _epoch_of(self, target: TopicPartition) -> int:
        return self._cluster.view.topics[target.topic].leader_epoch(target.partition)

    def _topic_id(self, topic: str) -> UUID:
        return self._cluster.view.topics[topic].topic_id


def _by_topic(targets: "Mapping[TopicPartition, object] | list[TopicPartition]") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in targets:
        found.setdefault(topic, []).append(partition)
    return found
