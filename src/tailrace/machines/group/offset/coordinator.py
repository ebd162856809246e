"""The offsets of groups: commit, fetch, delete and expire.

A commit with generation -1 to a group that does not exist comes from a consumer that assigns its partitions itself, or
from an admin client. It creates a *simple* group: a classic group without a protocol type. A simple group has no record
of its own and exists as long as it has offsets.

An offset that is committed in a transaction is pending until the transaction ends. Then it replaces the offset of the
group, unless that has a later record in the log. The order of the records decides, and not the order in which
transactions end, because compaction keeps the last record of each key.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from uuid import UUID

from tailrace.base.sentinel import INT64_MAX
from tailrace.config.unit import DAY_MS, KIB, MINUTE_MS
from tailrace.machines.decision import ProducerIdentity, Token
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller, CheckPartition, CommittedOffset, Group
from tailrace.machines.group.offset.pending import PendingOffsets
from tailrace.machines.group.offset.store import OffsetStore, committed_offset, offset_record, offset_tombstone
from tailrace.machines.group.record.offset import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import (
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
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
)
from tailrace.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.records.batch import NO_PRODUCER_ID

FIRST_VERSION_WITHOUT_GENERATION_ERROR = 9
FIRST_TRANSACTIONAL_VERSION_WITHOUT_GENERATION_ERROR = 6  # KIP-1319
NO_RETENTION = -1

Topic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


@dataclass(frozen=True, slots=True)
class OffsetSetting:
    """The configs of committed offsets."""

    metadata_length_max: int = 4 * KIB
    retention_ms: int = 7 * DAY_MS
    check_interval_ms: int = 10 * MINUTE_MS


class OffsetCoordinator:
    """Decides about the offsets of all groups in `groups`, which it shares with the other coordinators."""

    def __init__(self, groups: MutableMapping[str, Group], setting: OffsetSetting) -> None:
        self.groups = groups
        self.setting = setting
        self.store = OffsetStore()
        self.pending = PendingOffsets()

    # Commit.

    def decide_commit(self, now_ms: int, token: Token, caller: Caller, request: OffsetCommitRequest) -> Decision:
        """Decide OffsetCommit. The caller has checked that the topics exist, and has set both their names and ids."""
        has_own_errors = caller.version >= FIRST_VERSION_WITHOUT_GENERATION_ERROR
        group = self._group_to_commit_to(request, has_own_errors=has_own_errors)
        check = None if group is None else group.check_offset_commit(*_member(request), caller.version)
        retention_ms = request.retention_time_ms
        expire_ms = None if retention_ms == NO_RETENTION else min(now_ms + retention_ms, INT64_MAX)
        decision = Decision()
        topics = []
        for topic in request.topics:
            outcomes = [
                OffsetCommitResponsePartition(partition_index=index, error_code=error)
                for index, error in self._commit(decision, request.group_id, topic, check, now_ms, expire_ms)
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes))
        return decision.reply(token, OffsetCommitResponse(topics=topics))

    def decide_transactional_commit(
        self, now_ms: int, token: Token, caller: Caller, request: TxnOffsetCommitRequest
    ) -> Decision:
        """Decide TxnOffsetCommit: the offsets are pending until the transaction ends. Topics: see `decide_commit`."""
        has_own_errors = caller.version >= FIRST_TRANSACTIONAL_VERSION_WITHOUT_GENERATION_ERROR
        group = self._group_to_commit_to(request, has_own_errors=has_own_errors)
        decision = Decision(producer=ProducerIdentity(request.producer_id, request.producer_epoch))
        topics = []
        with nullcontext() if has_own_errors else _stale_epoch_as_generation():
            check = None
            if group is not None:
                check = group.check_offset_commit(*_member(request), caller.version, in_transaction=True)
            for topic in request.topics:
                outcomes = [
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
                    for index, error in self._commit(decision, request.group_id, topic, check, now_ms, None)
                ]
                topics.append(
                    TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes)
                )
        return decision.reply(token, TxnOffsetCommitResponse(topics=topics))

    def _group_to_commit_to(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, *, has_own_errors: bool
    ) -> Group | None:
        group = self.groups.get(request.group_id)
        if group is None and request.generation_id_or_member_epoch >= 0:
            if has_own_errors:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return group

    def _commit(
        self,
        decision: Decision,
        group_id: str,
        topic: Topic,
        check: CheckPartition | None,
        now_ms: int,
        expire_ms: int | None,
    ) -> Iterator[tuple[int, ErrorCode]]:
        """Write the offsets of the partitions of a topic; yield the result of each."""
        for partition in topic.partitions:
            index = partition.partition_index
            error = self._commit_error(check, topic, partition)
            if error is ErrorCode.NONE:
                committed = _committed(topic, partition, now_ms, expire_ms)
                decision.records.append(offset_record(group_id, topic.name, index, committed))
            yield index, error

    def _commit_error(self, check: CheckPartition | None, topic: Topic, partition: Partition) -> ErrorCode:
        if len(partition.committed_metadata or "") > self.setting.metadata_length_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if check is not None:
            check(topic.name, topic.topic_id, partition.partition_index)
        return ErrorCode.NONE

    # Fetch.

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return the requested offsets, or all; a group that does not exist has none.

        With `require_stable`, an offset that an open transaction may change is refused (KIP-447).
        """
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        known = {} if group is None else self.store.of_group(request.group_id)
        asked = request.topics
        if asked is None:
            asked = [
                OffsetFetchRequestGroupTopic(name=name, partition_indexes=list(offsets))
                for name, offsets in known.items()
            ]
        topics = []
        for topic in asked:
            offsets = known.get(topic.name, {})
            partitions = [
                _unstable(index)
                if require_stable and self.pending.has(request.group_id, topic.name, index)
                else _found(index, _unless_other_topic(offsets.get(index), topic.topic_id))
                for index in topic.partition_indexes
            ]
            topics.append(
                OffsetFetchResponseGroupTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    # Delete.

    def decide_delete(self, token: Token, request: OffsetDeleteRequest) -> Decision:
        """Decide OffsetDelete, for topics that the group is not subscribed to (KIP-496)."""
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
                if error is ErrorCode.NONE and self._is_known(request.group_id, topic.name, index):
                    decision.records.append(offset_tombstone(request.group_id, topic.name, index))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=outcomes))
        return decision.reply(token, OffsetDeleteResponse(topics=topics))

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        is_committed = self.store.get(group_id, topic, partition) is not None
        return is_committed or self.pending.has(group_id, topic, partition)

    def tombstones(self, group_id: str) -> list[Record]:
        """Build the tombstones of all offsets of a group, with the pending ones."""
        partitions = [(topic, index) for topic, offsets in self.store.of_group(group_id).items() for index in offsets]
        # Each of them once, in their order.
        named = dict.fromkeys(partitions + self.pending.of_group(group_id))
        return [offset_tombstone(group_id, topic, index) for topic, index in named]

    def forget_topics(self, deleted: Iterable[tuple[str, UUID]]) -> Decision:
        """Delete the offsets of deleted topics; the offsets of a new topic with the same name stay."""
        ids = dict(deleted)
        pending = [(*key, committed) for key, committed in self.pending.entries()]
        gone = {
            (group_id, topic, partition): None
            for group_id, topic, partition, committed in (*self.store.entries(), *pending)
            if topic in ids and committed.topic_id in (ZERO_UUID, ids[topic])
        }
        return Decision(records=[offset_tombstone(*key) for key in gone], is_atomic=False)

    # Expiry.

    def expire(self, now_ms: int) -> list[Record]:
        """Build tombstones for expired offsets, and for groups without members whose last offset has expired."""
        records: list[Record] = []
        for group in list(self.groups.values()):
            expired, all_gone = self._expire_group(now_ms, group)
            records += expired
            if all_gone and group.may_expire and not self.pending.has_group(group.group_id):
                records += group.tombstones()
        return records

    def _expire_group(self, now_ms: int, group: Group) -> tuple[list[Record], bool]:
        expired = []
        all_gone = True
        for topic, offsets in self.store.of_group(group.group_id).items():
            is_read = group.is_subscribed_to(topic)
            for partition, committed in offsets.items():
                is_needed = is_read or self.pending.has(group.group_id, topic, partition)
                if not is_needed and self._is_expired(now_ms, group, committed):
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

    # Replay.

    def replay(self, record: Record, offset: int, producer_id: int) -> bool:
        """Replay one record, live or from the log; False if it is not about an offset.

        `offset` is that of the record, and `producer_id` the producer of its transaction.
        """
        key, value = record.key, record.value
        if isinstance(key, LegacyOffsetCommitKey):
            key, value = _upgrade_legacy(key, value)
        if not isinstance(key, OffsetCommitKey):
            return False
        place = key.group, key.topic, key.partition
        if not isinstance(value, OffsetCommitValue):
            self.store.remove(*place)
            self.pending.remove(place)
            return True
        if key.group not in self.groups:
            self.groups[key.group] = ClassicGroup(key.group)
        committed = committed_offset(value, offset)
        if producer_id == NO_PRODUCER_ID:
            self.store.put(*place, committed)
        else:
            self.pending.put(producer_id, place, committed)
        return True

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay the marker that ends the transaction of a producer, live or from the log."""
        for place, committed in self.pending.take(producer_id).items():
            former = self.store.get(*place)
            if is_commit and (former is None or committed.record_offset > former.record_offset):
                self.store.put(*place, committed)


def _member(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> tuple[str, str | None, int]:
    return request.member_id, request.group_instance_id, request.generation_id_or_member_epoch


@contextmanager
def _stale_epoch_as_generation() -> Iterator[None]:
    """Replace the error code STALE_MEMBER_EPOCH, which producers older than KIP-1319 do not know."""
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message) from error


def _committed(topic: Topic, partition: Partition, now_ms: int, expire_ms: int | None) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expire_ms,
        topic_id=topic.topic_id,
    )


def _unless_other_topic(committed: CommittedOffset | None, topic_id: UUID) -> CommittedOffset | None:
    """Return None if the offset belongs to an earlier topic with the same name."""
    if committed is None or ZERO_UUID in (committed.topic_id, topic_id) or committed.topic_id == topic_id:
        return committed
    return None


def _unstable(partition: int) -> OffsetFetchResponseGroupPartition:
    return OffsetFetchResponseGroupPartition(
        partition_index=partition, committed_offset=-1, metadata="", error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )


def _found(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponseGroupPartition:
    if committed is None:
        return OffsetFetchResponseGroupPartition(partition_index=partition, committed_offset=-1, metadata="")
    return OffsetFetchResponseGroupPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _upgrade_legacy(key: LegacyOffsetCommitKey, value: object) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """Convert a record of Kafka before 0.9 to the current form."""
    current = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if not isinstance(value, LegacyOffsetCommitValue):
        return current, None
    return current, OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
