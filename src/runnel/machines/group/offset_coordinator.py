"""Offsets of groups: committed, read, deleted and expired.

A commit with generation -1 to a group that does not exist comes from a consumer that assigns its partitions
itself, or from an administrator. It founds a *simple* group: a classic group without protocol type, which has no
record of its own and is there as long as its offsets are.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from uuid import UUID

from runnel.config.unit import DAY_MS, KIB, MINUTE_MS
from runnel.machines.decision import Token
from runnel.machines.group.classic_group import ClassicGroup
from runnel.machines.group.decision import Decision
from runnel.machines.group.group import Caller, CheckPartition, CommittedOffset, Group
from runnel.machines.group.offset_store import OffsetStore, offset_record, offset_tombstone
from runnel.machines.group.record.offset import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from runnel.machines.log_record import Record
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
)
from runnel.protocol.primitive import INT64_MAX, ZERO_UUID

FIRST_VERSION_WITHOUT_GENERATION_ERROR = 9
NO_RETENTION = -1


@dataclass(frozen=True, slots=True)
class OffsetSetting:
    """What the broker's configuration says about committed offsets."""

    metadata_length_max: int = 4 * KIB
    retention_ms: int = 7 * DAY_MS
    check_interval_ms: int = 10 * MINUTE_MS


class OffsetCoordinator:
    """Decides about the offsets of all groups among `groups`, which it shares with their membership."""

    def __init__(self, groups: MutableMapping[str, Group], setting: OffsetSetting) -> None:
        self.groups = groups
        self.setting = setting
        self.store = OffsetStore()

    # Commit.

    def decide_commit(self, now_ms: int, token: Token, caller: Caller, request: OffsetCommitRequest) -> Decision:
        """Store offsets. The topics are known to exist and have both name and id."""
        check = self._check_commit(caller, request)
        retention_ms = request.retention_time_ms
        expire_ms = None if retention_ms == NO_RETENTION else min(now_ms + retention_ms, INT64_MAX)
        decision = Decision()
        topics = []
        for topic in request.topics:
            outcomes = []
            for partition in topic.partitions:
                error = self._commit_error(check, topic, partition)
                if error is ErrorCode.NONE:
                    committed = _committed(topic, partition, now_ms, expire_ms)
                    decision.records.append(
                        offset_record(request.group_id, topic.name, partition.partition_index, committed)
                    )
                outcomes.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes))
        return decision.reply(token, OffsetCommitResponse(topics=topics))

    def _check_commit(self, caller: Caller, request: OffsetCommitRequest) -> CheckPartition | None:
        group = self.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation < 0:
                return None
            if caller.version >= FIRST_VERSION_WITHOUT_GENERATION_ERROR:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return group.check_offset_commit(request.member_id, request.group_instance_id, generation, caller.version)

    def _commit_error(
        self, check: CheckPartition | None, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition
    ) -> ErrorCode:
        if len(partition.committed_metadata or "") > self.setting.metadata_length_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if partition.committed_offset < 0:
            # Kafka stores it, and whoever reads it back takes -1 for an offset that was never committed.
            return ErrorCode.INVALID_REQUEST
        if check is not None:
            check(topic.name, topic.topic_id, partition.partition_index)
        return ErrorCode.NONE

    # Fetch.

    def fetch(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """The offsets asked for, or all; a group that does not exist has none."""
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        offsets = {} if group is None else self.store.of_group(request.group_id)
        if request.topics is None:
            topics = [
                OffsetFetchResponseGroupTopic(name=name, partitions=[_found(*entry) for entry in partitions.items()])
                for name, partitions in offsets.items()
            ]
        else:
            topics = []
            for topic in request.topics:
                known = offsets.get(topic.name, {})
                partitions = [
                    _found(index, _unless_other_topic(known.get(index), topic.topic_id))
                    for index in topic.partition_indexes
                ]
                topics.append(
                    OffsetFetchResponseGroupTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
                )
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    # Delete.

    def decide_delete(self, token: Token, request: OffsetDeleteRequest) -> Decision:
        """Forget offsets of topics that the group does not read (KIP-496)."""
        group = self.groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        group.check_offset_delete()
        decision = Decision()
        topics = []
        for topic in request.topics:
            error = ErrorCode.NONE
            if group.is_subscribed_to(topic.name):
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            outcomes = []
            for partition in topic.partitions:
                index = partition.partition_index
                outcomes.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
                if error is ErrorCode.NONE and self.store.get(request.group_id, topic.name, index) is not None:
                    decision.records.append(offset_tombstone(request.group_id, topic.name, index))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=outcomes))
        return decision.reply(token, OffsetDeleteResponse(topics=topics))

    def forget_topics(self, deleted: Iterable[tuple[str, UUID]]) -> Decision:
        """The offsets of topics that are deleted go with them; those of a new topic of that name stay."""
        ids = dict(deleted)
        decision = Decision(is_atomic=False)
        for group_id, topic, partition, committed in self.store.entries():
            if topic in ids and committed.topic_id in (ZERO_UUID, ids[topic]):
                decision.records.append(offset_tombstone(group_id, topic, partition))
        return decision

    # Expiry.

    def expire(self, now_ms: int) -> list[Record]:
        """Tombstones for the offsets that nobody has needed for their retention, and for groups that are left bare."""
        records: list[Record] = []
        for group in list(self.groups.values()):
            expired, all_gone = self._expire_group(now_ms, group)
            records += expired
            if all_gone and group.may_expire:
                records += group.tombstones()
        return records

    def _expire_group(self, now_ms: int, group: Group) -> tuple[list[Record], bool]:
        expired = []
        all_gone = True
        for topic, offsets in self.store.of_group(group.group_id).items():
            is_read = group.is_subscribed_to(topic)
            for partition, committed in offsets.items():
                if not is_read and self._is_expired(now_ms, group, committed):
                    expired.append(offset_tombstone(group.group_id, topic, partition))
                else:
                    all_gone = False
        return expired, all_gone

    def _is_expired(self, now_ms: int, group: Group, committed: CommittedOffset) -> bool:
        since_ms = group.unused_since_ms(committed)
        if since_ms is None:
            return False
        if committed.expire_timestamp_ms is not None:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - since_ms >= self.setting.retention_ms

    # The log.

    def replay(self, record: Record) -> bool:
        """Take in one record, live or from the log; False when it is not about offsets."""
        key, value = record.key, record.value
        if isinstance(key, LegacyOffsetCommitKey):
            key, value = _modern(key, value)
        if not isinstance(key, OffsetCommitKey):
            return False
        if isinstance(value, OffsetCommitValue):
            if key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group)
            self.store.replay(key, value)
        else:
            self.store.replay(key, None)
        return True


def _committed(
    topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, now_ms: int, expire_ms: int | None
) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expire_ms,
        topic_id=topic.topic_id,
    )


def _unless_other_topic(committed: CommittedOffset | None, topic_id: UUID) -> CommittedOffset | None:
    """Nothing if the offset belongs to an earlier topic of the same name."""
    if committed is None or ZERO_UUID in (committed.topic_id, topic_id) or committed.topic_id == topic_id:
        return committed
    return None


def _found(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponseGroupPartition:
    if committed is None:
        return OffsetFetchResponseGroupPartition(partition_index=partition, committed_offset=-1, metadata="")
    return OffsetFetchResponseGroupPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _modern(key: LegacyOffsetCommitKey, value: object) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """What Kafka wrote before version 0.9, in today's form."""
    modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if not isinstance(value, LegacyOffsetCommitValue):
        return modern, None
    return modern, OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
