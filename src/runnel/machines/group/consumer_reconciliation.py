"""What a member may have next, on its way from what it has to what it shall have.

A partition changes hands in three steps, and at no time do two members have it:

1. The member that has too much is told a smaller assignment, in its old epoch. It waits in
   UNREVOKED_PARTITIONS until it reports without the partitions that it had to let go.
2. Then it moves to the epoch of the target. Partitions of the target that nobody has any more are its own.
3. Those that another member has not let go yet are missing. It waits in UNRELEASED_PARTITIONS, in the new
   epoch, and gets each as it becomes free; then it is STABLE.

All members walk at their own pace; nobody waits for a member that has nothing to give.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from runnel.machines.group.assignor import Assignment
from runnel.machines.group.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, PartitionEpochs
from runnel.protocol.errors import ApiError, ErrorCode

Owned = Mapping[UUID, frozenset[int]]
"""The partitions that a member reports to have."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a member is to go.

    `subscribed` are the topics it wants now: the target may be older than its subscription.
    `is_free` says whether nobody has a partition.
    """

    epoch: int
    assignment: Assignment
    subscribed: frozenset[UUID]
    is_free: Callable[[UUID, int], bool]


def reconcile(
    member: ConsumerMember, target: Target, owned: Owned | None, subscription_changed: bool = False
) -> ConsumerMember:
    """The member after this report of what it has; None when the report does not say."""
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return _drop_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _still_owned(member.pending_revocation, owned):
            return _drop_unsubscribed(member, target, owned) if subscription_changed else member
        case MemberState.UNKNOWN:
            # Only a downgraded broker meets a state that it does not know. Starting from nothing is always safe.
            if owned is None or any(owned.values()):
                raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is unknown: it must rejoin")
            return _advance(member, target, owned, target.epoch)
    return _advance(member, target, owned, member.epoch)


def _still_owned(partitions: PartitionEpochs, owned: Owned | None) -> bool:
    """Whether the member has, for all we know, some of these partitions."""
    if owned is None:
        return True
    return any(index in partitions.get(topic_id, ()) for topic_id, indexes in owned.items() for index in indexes)


def _drop_unsubscribed(member: ConsumerMember, target: Target, owned: Owned | None) -> ConsumerMember:
    """Take back at once what the member's own new subscription excludes; the next target comes later."""
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
            # What the member itself has just let go is free for it, though the log does not say so yet.
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
