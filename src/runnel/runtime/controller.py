"""The shell around the controller's decisions: one at a time, committed, then carried out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID, uuid4

from runnel.coordination.cluster import ClusterMetadata
from runnel.machines.controller.image import Topic
from runnel.machines.controller.record import ConfigKind, ConfigRecord, Record
from runnel.machines.controller.topic import Defaults, NewTopic, decide_add_partitions, decide_create, decide_delete
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")

_RESERVED_IDS = {UUID(int=0), UUID(int=1)}  # Kafka: no topic, and the metadata topic


class Controller:
    """Changes of topics and of dynamic configuration."""

    def __init__(
        self, metadata: ClusterMetadata, broker_ids: Sequence[int], carried_out: Callable[[], Awaitable[None]]
    ) -> None:
        self._metadata = metadata
        self._broker_ids = broker_ids
        self._carried_out = carried_out
        # A decision reads the image; until it is committed no other may be made on the same image.
        self._turn = asyncio.Lock()

    async def create_topic(self, new: NewTopic, defaults: Defaults, *, validate_only: bool = False) -> Topic:
        """Make a topic; it is ready for use when this returns."""
        topic_id = uuid4()
        while topic_id in _RESERVED_IDS:
            topic_id = uuid4()
        async with self._turn:
            records = decide_create(self._metadata.image, new, topic_id, self._broker_ids, defaults)
            if validate_only:
                return Topic(new.name, UUID(int=0), records[0].assignment)  # type: ignore[union-attr]
            await self._commit(records)
            topic = self._metadata.image.topics[new.name]
        await self._carried_out()
        return topic

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grow a topic to `count` partitions."""
        image, broker_ids = self._metadata.image, self._broker_ids
        await self._change(lambda: decide_add_partitions(image, name, count, assignments, broker_ids), validate_only)

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and its data."""
        await self._change(lambda: decide_delete(self._metadata.image, name), validate_only=False)

    async def write_config(
        self,
        kind: ConfigKind,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool,
    ) -> None:
        """Replace a dynamic configuration by what `change` makes of it; `change` raises for what is not allowed."""
        image = self._metadata.image
        await self._change(lambda: [ConfigRecord(kind, name, change(image.config(kind, name)))], validate_only)

    async def _change(self, decide: Callable[[], list[Record]], validate_only: bool) -> None:
        async with self._turn:
            records = decide()
            if validate_only:
                return
            await self._commit(records)
        await self._carried_out()

    async def _commit(self, records: Sequence[Record]) -> None:
        try:
            await self._metadata.commit(records)
        except StorageError as error:
            # An outcome for this one change: others of the same request may have been made already.
            log.error("the metadata could not be written: %s", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata could not be written") from error
