"""Membership of consumer groups: how members are admitted, fenced and removed."""

from dataclasses import replace

from tailrace.base.invariant import invariant
from tailrace.machines.group.consumer.change import JOIN, REBALANCE, SESSION, SYNC, Change
from tailrace.machines.group.consumer.member import (
    JOINING_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
)
from tailrace.machines.group.consumer.reconciliation import Owned
from tailrace.machines.group.consumer.record import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_record,
)
from tailrace.machines.group.consumer.subscription import hash_topics
from tailrace.protocol.errors import ApiError, ErrorCode


def check_size(change: Change, member_id: str, instance_id: str | None) -> None:
    """Raise ApiError if the group is full; a static member that returns does not count twice."""
    group, size_max = change.group, change.setting.size_max
    if group.static_member(instance_id) is None and member_id not in group.members and len(group.members) >= size_max:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def admit(change: Change, member_id: str, instance_id: str | None, *, joining: bool, classic: bool) -> ConsumerMember:
    """Return the member that sent a request; if it is joining, it may be new."""
    if instance_id is None:
        member = change.group.members.get(member_id)
        return ConsumerMember(member_id) if member is None and joining else change.group.member(member_id)
    former = change.group.static_member(instance_id)
    if not joining:
        return known_instance(former, member_id, instance_id)
    if former is None:
        return change.group.members.get(member_id) or ConsumerMember(member_id)
    if not classic and former.classic is None and former.epoch != STATIC_LEAVING_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id"
            f" is owned by {former.member_id} member.",
        )
    return _replace_static(change, former, member_id)


def known_instance(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member with an instance id; raise ApiError if another member owns the instance id."""
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _replace_static(change: Change, former: ConsumerMember, member_id: str) -> ConsumerMember:
    """Replace a static member that returns under another member id; it inherits everything but the epoch."""
    group_id = change.group.group_id
    member = replace(former, member_id=member_id, epoch=0, previous_epoch=0)
    change.write(
        *member_tombstones(group_id, former.member_id),
        member_record(group_id, member),
        target_record(group_id, member_id, change.group.targets.get(former.member_id, {})),
        current_record(group_id, member),
    )
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH if a member is not in the epoch that the coordinator knows.

    A member with the previous epoch may have missed a reply. It may continue if it owns only partitions that it is
    assigned in the current epoch.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _is_subset(owned, member.assigned):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(owned: Owned | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(topic_id in assigned and indexes <= assigned[topic_id].keys() for topic_id, indexes in owned.items())


def leave_temporarily(change: Change, member: ConsumerMember) -> None:
    """Let a static member leave and keep its partitions until its session ends."""
    since_zero = {topic_id: dict.fromkeys(indexes, 0) for topic_id, indexes in member.assigned.items()}
    away = replace(member, epoch=STATIC_LEAVING_EPOCH, assigned=since_zero, pending_revocation=NO_PARTITIONS)
    change.write(current_record(change.group.group_id, away))


def watch(change: Change, member: ConsumerMember) -> None:
    """Start every timer of a member: its session and, if it has to revoke partitions or to join again, its timeout."""
    change.set_timer(SESSION, member.member_id, change.setting.session_timeout_ms)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        change.group.rebalance_epochs[member.member_id] = member.epoch
        change.set_timer(REBALANCE, member.member_id, member.rebalance_timeout_ms)
    if member.member_id in change.group.must_rejoin:
        change.set_timer(JOIN, member.member_id, member.rebalance_timeout_ms)


def remove_members(change: Change, members: list[ConsumerMember]) -> None:
    """Remove members that left or were fenced: their partitions are free, and the group epoch grows."""
    group = change.group
    gone = {member.member_id for member in members}
    invariant(gone <= group.members.keys(), f"{group.group_id}: a client is removed that is not a member")
    for member in members:
        change.write(*member_tombstones(group.group_id, member.member_id))
    rest = [member for member in group.members.values() if member.member_id not in gone]
    still_used = {member.topic_regex for member in rest}
    for regex in sorted({member.topic_regex for member in members if member.topic_regex} - still_used):
        change.write(regex_tombstone(group.group_id, regex))
    names = set().union(*map(group.topics_of, rest))
    change.epoch += 1
    change.write(epoch_record(group.group_id, change.epoch, hash_topics(names, change.image)))
    for member in members:
        for purpose in (SESSION, REBALANCE, JOIN, SYNC):
            change.cancel_timer(purpose, member.member_id)
