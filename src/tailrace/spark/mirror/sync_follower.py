"""The offset syncs of a mirror, read from the target into translations of offsets."""

import logging

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.request import Fetched
from tailrace.client.offset import EARLIEST, LATEST, list_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.record import UnreadableSync, decode_sync
from tailrace.spark.mirror.source_reader import SourceReader
from tailrace.spark.mirror.translation import Translation

_log = logging.getLogger(__name__)

_WAIT_S = 1.0


class SyncFollower:
    """Follows the topic of offset syncs. Only committed syncs are read, so each is true."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.translations: dict[TopicPartition, Translation] = {}
        """The translation of each partition of the source."""
        self._cluster = cluster
        self._place = TopicPartition(topic, 0)
        self._reader: SourceReader | None = None

    async def read(self) -> None:
        """Read all syncs that are committed now and have not been read."""
        if self._reader is None:
            self._reader = SourceReader(self._cluster, {self._place: await self._edge(EARLIEST)})
        end = {self._place: await self._edge(LATEST)}
        while not self._reader.is_at(end):
            for fetched in await self._reader.next(_WAIT_S):
                self._take(fetched)

    async def _edge(self, edge: int) -> int:
        found = await list_offsets(self._cluster, self._place.topic, {0: edge}, Isolation.READ_COMMITTED)
        return found[0].offset

    def _take(self, fetched: Fetched) -> None:
        for record in fetched.records():
            try:
                partition, span = decode_sync(record.key, record.value, tuple(record.headers))
            except UnreadableSync as error:
                _log.warning("%s offset %d: %s", self._place, record.offset, error)
            else:
                self.translations.setdefault(partition, Translation()).add(span)

    async def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            await self._reader.close()
            await self._cluster.close_lane(self._reader)
