"""The state of one consumer group. Only the replay of records changes it, except for soft state.

A group has three kinds of epochs. The *group epoch* grows when the members, their subscriptions or their topics change.
The *assignment epoch* is the group epoch for which the targets of the members were computed. The *member epoch* is the
assignment epoch that the member has reached; `reconciliation` has the steps by which it gets there.

Soft state (below the comment in the constructor) is not in the log, and a restart loses it.
"""

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.group.assignor.assignor import NOTHING, Assignment
from tailrace.machines.group.consumer.commit import check_commit_epoch, check_fetch_epoch
from tailrace.machines.group.consumer.member import (
    LEAVING_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    PartitionEpochs,
)
from tailrace.machines.group.consumer.record import classic_member, group_tombstones, member_state, partition_epochs
from tailrace.machines.group.group import CheckPartition, CommittedOffset, GroupType
from tailrace.machines.group.record.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from tailrace.machines.log_record import Record
from tailrace.protocol.consumer_protocol import PROTOCOL_TYPE
from tailrace.protocol.errors import ApiError, ErrorCode


class ConsumerGroupState(StrEnum):
    """The states, under the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched when it was last resolved."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    """The members, epochs and targets of a group, and the owner of each partition."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        self.regex_counts: Counter[str] = Counter()
        self.has_partition_metadata = False
        # Soft state.
        self.refreshed_epoch: int | None = None
        self.refreshed_version = -1
        self.regex_refresh_pending = False
        self.rebalance_epochs: dict[str, int] = {}
        self.must_rejoin: set[str] = set()

    # Questions.

    def member(self, member_id: str) -> ConsumerMember:
        """Return the member with this id; raise UNKNOWN_MEMBER_ID if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that owns an instance id, if any."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def target(self, member: ConsumerMember) -> Assignment:
        """Return the target of a member; a static member that returns inherits it from the member that it replaces."""
        former_id = self.static_members.get(member.instance_id) if member.instance_id is not None else None
        return self.targets.get(member.member_id if former_id is None else former_id, NOTHING)

    def is_free(self, topic_id: UUID, index: int) -> bool:
        """Return whether no member owns a partition."""
        return (topic_id, index) not in self.owners

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def classic_members(self) -> list[ConsumerMember]:
        """The members that use the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def is_metadata_stale(self, topics_version: int) -> bool:
        """Return whether the topics must be checked again, also because the last check could not be written."""
        return (
            self.refreshed_epoch is None
            or self.epoch < self.refreshed_epoch
            or self.refreshed_version != topics_version
        )

    def note_refresh(self, epoch: int, topics_version: int) -> None:
        """Note that the topics were checked for the group in this epoch."""
        self.refreshed_epoch, self.refreshed_version = epoch, topics_version

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member is subscribed to, by name or by regular expression."""
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def topic_ids_of(self, member: ConsumerMember, image: ClusterImage) -> frozenset[UUID]:
        """Return the ids of the existing topics that a member is subscribed to."""
        return frozenset(image.topics[name].topic_id for name in self.topics_of(member) if name in image.topics)

    @property
    def topic_names(self) -> set[str]:
        """All topics that any member is subscribed to."""
        return set().union(*map(self.topics_of, self.members.values()))

    # The interface of every group.

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_name(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, *, in_transaction: bool = False
    ) -> CheckPartition | None:
        if generation < 0 and not self.members:
            return None  # an admin client, or a consumer that assigns its partitions itself
        if in_transaction and generation < 0 and not member_id and instance_id is None:
            return None
        return check_commit_epoch(self.member(member_id), generation, version, in_transaction=in_transaction)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None or member_epoch >= 0:
            check_fetch_epoch(self.member(member_id or ""), member_epoch)

    def check_offset_delete(self) -> None:
        """Allow it always; the offsets of topics that the group is subscribed to are refused one by one."""

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_timestamp_ms

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members, self.resolved)

    # Replay.

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        """Replay a member that joined, changed its subscription or left."""
        if value is None:
            self._remove(member_id)
            return
        self.put(
            replace(
                self.members.get(member_id) or ConsumerMember(member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
                topic_regex=value.subscribed_topic_regex,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                classic=classic_member(value),
            )
        )

    def replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        """Replay the epoch and the partitions of a member; a tombstone precedes its removal."""
        member = self.members.get(member_id)
        if value is not None:
            self.put(
                (member or ConsumerMember(member_id)).placed(
                    value.member_epoch,
                    value.previous_member_epoch,
                    member_state(value),
                    partition_epochs(value.assigned_partitions, value.member_epoch),
                    partition_epochs(value.partitions_pending_revocation, value.member_epoch),
                )
            )
        elif member is not None:
            gone = replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)
            self.put(replace(gone, assigned=NO_PARTITIONS, pending_revocation=NO_PARTITIONS))

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member, and note the partitions that it owns."""
        former = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count_regex(former, -1)
        self._count_regex(member, 1)
        if former is not None:
            if former.assigned is member.assigned and former.pending_revocation is member.pending_revocation:
                return
            self._release(former)
        for assigned in (member.assigned, member.pending_revocation):
            for key in _keys(assigned):
                self.owners[key] = member.member_id

    def _count_regex(self, member: ConsumerMember | None, step: int) -> None:
        if member is not None and member.topic_regex:
            self.regex_counts[member.topic_regex] += step
            if not self.regex_counts[member.topic_regex]:
                del self.regex_counts[member.topic_regex]

    def _release(self, member: ConsumerMember) -> None:
        for assigned in (member.assigned, member.pending_revocation):
            for key in _keys(assigned):
                if self.owners.get(key) == member.member_id:
                    del self.owners[key]

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._count_regex(member, -1)
        self.rebalance_epochs.pop(member_id, None)
        self.must_rejoin.discard(member_id)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]


def _keys(assigned: PartitionEpochs) -> list[tuple[UUID, int]]:
    return [(topic_id, index) for topic_id, indexes in assigned.items() for index in indexes]
