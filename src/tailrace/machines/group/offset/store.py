"""The offsets that groups have committed."""

from collections.abc import Iterator

from tailrace.machines.group.group import CommittedOffset
from tailrace.machines.group.record.offset import OffsetCommitKey, OffsetCommitValue
from tailrace.machines.log_record import Record

TopicOffsets = dict[int, CommittedOffset]


class OffsetStore:
    """Offsets by group, topic and partition. Only the replay of records and markers changes them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> dict[str, TopicOffsets]:
        """Return all offsets of a group, by topic; the caller must not change them."""
        return self._groups.get(group_id, {})

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(len(offsets) for topics in self._groups.values() for offsets in topics.values())

    def group_ids(self) -> list[str]:
        """Return the groups that have committed offsets."""
        return list(self._groups)

    def entries(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Yield every group, topic, partition and offset."""
        for group_id, topics in self._groups.items():
            for topic, offsets in topics.items():
                for partition, committed in offsets.items():
                    yield group_id, topic, partition, committed

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Store an offset that was committed."""
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove an offset that was deleted."""
        topics = self._groups.get(group_id, {})
        offsets = topics.get(topic, {})
        if offsets.pop(partition, None) is None:
            return
        if not offsets:
            del topics[topic]
        if not topics:
            del self._groups[group_id]


def committed_offset(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    """Return the offset in a record, with the offset of the record itself."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == -1 else value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=record_offset,
    )


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> Record:
    """Build the record of a committed offset."""
    expire_ms = committed.expire_timestamp_ms
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=-1 if expire_ms is None else expire_ms,
        topic_id=committed.topic_id,
    )
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Build the tombstone of a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
