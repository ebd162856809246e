"""The groups of the source: their offsets are translated, written as checkpoints, and committed in the target."""

import asyncio
from collections.abc import Mapping

from tailrace.base.mirror_limits import MIRROR_GROUPS_IN_FLIGHT_MAX
from tailrace.client.admin.core import Admin
from tailrace.client.produce.aio import Producer
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.consumer_protocol import PROTOCOL_TYPE
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.mirror.group_plan import INACTIVE_STATES, plan_commits, translate_group
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.record import Checkpoint, encode_checkpoint
from tailrace.spark.mirror.selection import selects_group
from tailrace.spark.mirror.translation import Translation

_KINDS = frozenset({PROTOCOL_TYPE, ""})  # a group without members may have no type


class GroupSync:
    """Lets the groups of the target follow those of the source."""

    def __init__(self, options: MirrorOptions, source: Admin, target: Admin, producer: Producer) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._producer = producer
        self._written: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._committed: dict[str, dict[TopicPartition, Checkpoint]] = {}

    async def run_once(self, translations: Mapping[TopicPartition, Translation], names: Mapping[str, str]) -> None:
        """Translate the offsets of all groups; `names` has the copies of topics."""
        listed, there = await asyncio.gather(self._source.list_groups(), self._target.list_groups())
        active = {group.group_id for group in there if group.state not in INACTIVE_STATES}
        limit = asyncio.Semaphore(MIRROR_GROUPS_IN_FLIGHT_MAX)

        async def follow(group_id: str) -> None:
            async with limit:
                committed = await self._source.list_group_offsets(group_id)
                checkpoints = translate_group(group_id, committed, translations, names)
                await self._follow(group_id, checkpoints, is_active=group_id in active)

        await asyncio.gather(
            *(
                follow(group.group_id)
                for group in listed
                if group.protocol_type in _KINDS and selects_group(self._options.groups, group.group_id)
            )
        )

    async def _follow(self, group_id: str, checkpoints: dict[TopicPartition, Checkpoint], *, is_active: bool) -> None:
        """Commit the offsets of an inactive group, and write the checkpoints that have changed."""
        before = self._written.get(group_id, {})
        changed = [encode_checkpoint(one) for place, one in checkpoints.items() if before.get(place) != one]
        for record in changed:
            topic = self._options.name.checkpoints_topic
            await self._producer.send(topic, record.value, record.key, partition=0)
        if is_active:
            self._committed.pop(group_id, None)
        elif self._committed.get(group_id) != checkpoints:
            await self._commit(group_id, checkpoints)
            self._committed[group_id] = checkpoints
        if changed:
            await self._producer.flush()
        self._written[group_id] = checkpoints

    async def _commit(self, group_id: str, checkpoints: Mapping[TopicPartition, Checkpoint]) -> None:
        there = await self._target.list_group_offsets(group_id, list(checkpoints))
        commits = plan_commits(checkpoints, there)
        if not commits:
            return
        for partition, error in (await self._target.alter_group_offsets(group_id, commits)).items():
            # A member may have joined a moment ago: then the group is left alone.
            if error is not None and error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
                raise ApiError(error.code, f"committing the offset of {partition} for group {group_id}: {error}")
