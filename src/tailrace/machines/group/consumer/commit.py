"""The checks of members that commit and fetch the offsets of a consumer group (KIP-1251).

A member may commit in its current epoch. In an older epoch it may commit for the partitions that it has owned since
that epoch or before: it does not know the new epoch yet, and no other member can have owned the partition since.
"""

from collections.abc import Callable
from uuid import UUID

from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.protocol.errors import ApiError, ErrorCode

FIRST_VERSION_FOR_CONSUMER_PROTOCOL = 9


def check_commit_epoch(
    member: ConsumerMember, epoch: int, version: int, *, in_transaction: bool
) -> Callable[[str, UUID, int], None] | None:
    """Raise ApiError if this member may not commit; return the check of each partition, if one is needed."""
    if not in_transaction and member.classic is None and version < FIRST_VERSION_FOR_CONSUMER_PROTOCOL:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale(member, f"Received epoch {epoch} is newer than the current member epoch {member.epoch}.")
    return lambda topic, topic_id, index: _check_partition(member, epoch, topic, topic_id, index)


def _check_partition(member: ConsumerMember, epoch: int, topic: str, topic_id: UUID, index: int) -> None:
    since = member.assigned.get(topic_id, {}).get(index)
    if since is None:
        since = member.pending_revocation.get(topic_id, {}).get(index)
    if since is None:
        raise _stale(member, f"Partition {topic}-{index} is not assigned or pending revocation for member.")
    if epoch < since:
        raise _stale(member, f"Received epoch {epoch} is older than epoch {since} of partition {topic}-{index}.")


def check_fetch_epoch(member: ConsumerMember, epoch: int) -> None:
    """Raise ApiError if this member may not fetch offsets."""
    if epoch != member.epoch:
        raise _stale(member, f"The received epoch {epoch} does not match the expected member epoch {member.epoch}.")


def _stale(member: ConsumerMember, message: str) -> ApiError:
    """Build the error with the code of the member's own protocol."""
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return ApiError(code, message)
