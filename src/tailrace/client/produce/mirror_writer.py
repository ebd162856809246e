"""Writes of another cluster's batches at the offsets they have there: an extension of Tailrace (docs/MIRROR.md)."""

from collections.abc import Hashable

from tailrace.base.sentinel import ACKS_ALL
from tailrace.client.cluster import SHARED_LANE, Cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tailrace.records.batch import Buffer

_NAMES_VERSION = 12  # the last version that has topic names instead of ids; all that know the extension have it


class MirrorWriter:
    """Appends to topics of one claim. A batch that is sent again is not written again."""

    def __init__(
        self, cluster: Cluster, claim: str, *, delivery_timeout_ms: int = 120_000, lane: Hashable = SHARED_LANE
    ) -> None:
        """`claim` is the topics' `tailrace.mirror.claim`."""
        self._cluster = cluster
        self._claim = claim
        self._delivery_timeout_ms = delivery_timeout_ms
        self._lane = lane

    async def append(self, target: TopicPartition, from_offset: int, data: Buffer) -> None:
        """Append batches, and wait until all replicas in sync have them.

        `data` is all that the source has from `from_offset` on, up to the last batch in `data`. Raises `ApiError` if
        the leader refuses it: PRODUCER_FENCED if another mirror has claimed the topic, OFFSET_OUT_OF_RANGE if the copy
        ends before `from_offset`.
        """
        await self._cluster.retry(lambda: self._send(target, from_offset, data), timeout_ms=self._delivery_timeout_ms)

    async def _send(self, target: TopicPartition, from_offset: int, data: Buffer) -> None:
        cluster = self._cluster
        leader_id = await cluster.leader_id(target.topic, target.partition)
        partition = ProduceRequestPartition(index=target.partition, records=data, mirror_from_offset=from_offset)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=cluster.request_timeout_ms,
            topic_data=[ProduceRequestTopic(name=target.topic, partition_data=[partition])],
            mirror_claim=self._claim,
        )
        try:
            connection = await cluster.connection(leader_id, self._lane)
            reply = await connection.request(request, ProduceResponse, version_max=_NAMES_VERSION)
        except BaseException:
            cluster.forget(target.topic)
            raise
        (answer,) = reply.responses[0].partition_responses
        if answer.error_code:
            cluster.forget(target.topic)
            raise ApiError(ErrorCode(answer.error_code), answer.error_message or f"{target} cannot be written")
