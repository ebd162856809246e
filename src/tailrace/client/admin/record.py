"""The admin call that deletes the oldest records of partitions (KIP-107)."""

from collections import defaultdict
from collections.abc import Mapping

from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable
from tailrace.client.produce.core import check_partition
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)


class RecordAdmin:
    """The admin call for records."""

    _cluster: Cluster
    _timeout_ms: int

    async def delete_records(self, offsets: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int | ApiError]:
        """Delete the records before an offset in each partition, and return the first offset that is left.

        LATEST, which is -1, deletes all records up to the high watermark.
        """
        outcomes: dict[TopicPartition, int | ApiError] = {}
        waiting: dict[TopicPartition, int] = {}
        wanted = {TopicPartition(*name): offset for name, offset in offsets.items()}
        for target, offset in wanted.items():
            try:
                check_partition(await self._cluster.topic(target.topic), target.partition)
                waiting[target] = offset
            except ApiError as error:
                outcomes[target] = error

        async def ask() -> None:
            found = await self._ask_leaders(waiting)
            outcomes.update(found)
            for target, outcome in found.items():
                if isinstance(outcome, int) or not outcome.code.retriable:
                    del waiting[target]
            for target in waiting:
                self._cluster.forget(target.topic)  # another broker may be the leader by now
            for error in (outcomes[target] for target in waiting):
                if isinstance(error, ApiError):
                    raise error

        try:
            await self._cluster.retry(ask, timeout_ms=self._timeout_ms)
        except ApiError as error:
            outcomes |= dict.fromkeys(waiting, error)
        return {target: outcomes[target] for target in wanted}

    async def _ask_leaders(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiError]:
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for target in offsets:
            by_leader[await self._cluster.leader_id(*target)].append(target)
        outcomes: dict[TopicPartition, int | ApiError] = {}
        for leader_id, targets in by_leader.items():
            request = _request({target: offsets[target] for target in targets}, self._timeout_ms)
            try:
                reply = await self._cluster.request(leader_id, request, DeleteRecordsResponse)
            except BrokerUnavailable:
                for target in targets:
                    self._cluster.forget(target.topic)
                raise
            for topic in reply.topics:
                for answer in topic.partitions:
                    target = TopicPartition(topic.name, answer.partition_index)
                    outcomes[target] = answer.low_watermark
                    if answer.error_code:
                        message = f"deleting records of {target} before offset {offsets[target]}"
                        outcomes[target] = ApiError(ErrorCode(answer.error_code), message)
        return outcomes


def _request(offsets: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: defaultdict[str, list[DeleteRecordsRequestPartition]] = defaultdict(list)
    for target, offset in offsets.items():
        topics[target.topic].append(DeleteRecordsRequestPartition(partition_index=target.partition, offset=offset))
    return DeleteRecordsRequest(
        topics=[DeleteRecordsRequestTopic(name=name, partitions=asked) for name, asked in topics.items()],
        timeout_ms=timeout_ms,
    )
