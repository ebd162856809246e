"""Reconciliation: the steps of a member from the partitions that it owns to its target.

A partition moves between members in three steps, and no two members own it at any time:

1. A member that owns too much gets a smaller assignment, in its old epoch. It stays in UNREVOKED_PARTITIONS until it
   reports that it has revoked the other partitions.
2. Then it moves to the epoch of the target, and gets the partitions of its target that no member owns.
3. If other members still own partitions of its target, it stays in UNRELEASED_PARTITIONS, in the new epoch, and gets
   each partition when it is free. Then it is STABLE.

Every member moves at its own pace, and waits only for members that own a partition of its target.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from tailrace.machines.group.assignor.assignor import Assignment
from tailrace.machines.group.consumer.member import NO_PARTITIONS, ConsumerMember, MemberState, PartitionEpochs
from tailrace.protocol.errors import ApiError, ErrorCode

Owned = Mapping[UUID, frozenset[int]]
"""The partitions that a member reports to own."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a member.

    `subscribed` are the topics of its current subscription, which may be newer than the target.
    `is_free` returns whether no member owns a partition.
    """

    epoch: int
    assignment: Assignment
    subscribed: frozenset[UUID]
    is_free: Callable[[UUID, int], bool]


def reconcile(
    member: ConsumerMember, target: Target, owned: Owned | None, subscription_changed: bool = False
) -> ConsumerMember:
    """Move a member by one step. `owned` is what it reports to own; None if it reports nothing."""
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return _drop_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _still_owned(member.pending_revocation, owned):
            return _drop_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNKNOWN:
            # Only a broker that was downgraded can find an unknown state. Starting without partitions is always safe.
            if owned is None or any(owned.values()):
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"Member {member.member_id} is in an unknown state. The member must abandon all its partitions and"
                    " rejoin.",
                )
            return _advance(member, target, owned, target.epoch)
    return _advance(member, target, owned, member.epoch)


def _still_owned(partitions: PartitionEpochs, owned: Owned | None) -> bool:
    """Return whether the member may still own one of these partitions."""
    if owned is None:
        return True
    return any(index in partitions.get(topic_id, ()) for topic_id, indexes in owned.items() for index in indexes)


def _drop_unsubscribed(member: ConsumerMember, target: Target, owned: Owned | None) -> ConsumerMember:
    """Revoke the partitions of topics that the member has unsubscribed from, before there is a new target."""
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in target.subscribed}
    if len(kept) == len(member.assigned):
        return member
    pending = {topic_id: dict(epochs) for topic_id, epochs in member.pending_revocation.items()}
    for topic_id in member.assigned.keys() - kept.keys():
        pending.setdefault(topic_id, {}).update(member.assigned[topic_id])
    if _still_owned(pending, owned):
        return member.at(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return member.at(member.epoch, member.state, kept, member.pending_revocation)


def _advance(member: ConsumerMember, target: Target, owned: Owned | None, epoch: int) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    gained: list[tuple[UUID, int]] = []
    unreleased = False
    for topic_id in {*target.assignment, *member.assigned}:
        wanted = target.assignment.get(topic_id, frozenset()) if topic_id in target.subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        for index, since in has.items():
            (kept if index in wanted else revoked).setdefault(topic_id, {})[index] = since
        for index in wanted - has.keys():
            # A partition that the member itself has just revoked is free, though this is not in the log yet.
            own = index in member.pending_revocation.get(topic_id, ())
            if own or target.is_free(topic_id, index):
                gained.append((topic_id, index))
            else:
                unreleased = True
    if revoked and _still_owned(revoked, owned):
        return member.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, index in gained:
        kept.setdefault(topic_id, {})[index] = target.epoch
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.at(target.epoch, state, kept or NO_PARTITIONS)
