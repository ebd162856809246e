"""ConsumerGroupHeartbeat: a member joins, reports what it owns, and gets its assignment (KIP-848)."""

from dataclasses import replace

from tailrace.base.invariant import invariant
from tailrace.machines.group.assignor.assignor import Assignment
from tailrace.machines.group.consumer.change import REBALANCE, SESSION, Change
from tailrace.machines.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
)
from tailrace.machines.group.consumer.membership import admit, check_epoch, check_size
from tailrace.machines.group.consumer.reconciliation import Owned, Target, reconcile
from tailrace.machines.group.consumer.record import current_record, member_record
from tailrace.machines.group.consumer.subscription import RegexChange, change_regex, refresh_metadata
from tailrace.machines.group.consumer.target import update_target
from tailrace.machines.group.group import Caller
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

_NOTHING_SAID = (None, None, None, None, None, -1)


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raise ApiError if the request is invalid, whatever the state of the group."""
    epoch = request.member_epoch
    if not request.member_id and (version >= 1 or epoch > 0 or epoch == LEAVING_EPOCH):
        raise _invalid("MemberId can't be empty.")
    for name, text in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def heartbeat(
    change: Change, request: ConsumerGroupHeartbeatRequest, member_id: str, caller: Caller
) -> ConsumerGroupHeartbeatResponse:
    """Update a member, move it one step towards its target, and reply with its assignment."""
    joining = request.member_epoch == JOINING_EPOCH
    owned = owned_partitions(request)
    check_size(change, member_id, request.instance_id)
    former = admit(change, member_id, request.instance_id, joining=joining, classic=False)
    check_epoch(former, request.member_epoch, owned)
    member = _update(former, request, caller)
    names_changed = note_member(change, former, member)
    regex = change_regex(change, former, member)
    bump = names_changed or regex is RegexChange.RESOLVED or change.must_reassign
    if bump or change.group.is_metadata_stale(change.topics_version):
        refresh_metadata(change, member, bump)
    epoch, target = update_target(change, member)
    subscription_changed = names_changed or regex is not RegexChange.NONE
    member = move(change, member, epoch, target, owned, subscription_changed)
    change.set_timer(SESSION, member_id, change.setting.session_timeout_ms)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=change.setting.heartbeat_interval_ms
    )
    if joining or _is_full(request) or member.assigned != former.assigned:
        response.assignment = _assignment(member.assigned)
    return response


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """Return the partitions that a member reports to own; None if it reports nothing."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request is complete, as it is when the member does not know what the coordinator knows."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None


def _update(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """Update a member from its heartbeat; fields that the heartbeat leaves out keep their values."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    said = (names, regex, request.rack_id, request.server_assignor, member.classic, request.rebalance_timeout_ms)
    former = (member.instance_id, member.client_id, member.client_host)
    if said == _NOTHING_SAID and former == (request.instance_id, caller.client_id, caller.client_host):
        return member  # nearly always
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def note_member(change: Change, former: ConsumerMember, member: ConsumerMember) -> bool:
    """Write a changed member; return whether its topic names changed."""
    if member is former or member == former:  # the first is nearly always true, and the second compares every field
        return False
    change.write(member_record(change.group.group_id, member))
    return member.topic_names != former.topic_names


def move(
    change: Change,
    member: ConsumerMember,
    epoch: int,
    assignment: Assignment,
    owned: Owned | None,
    subscription_changed: bool,
) -> ConsumerMember:
    """Move a member one step towards its target, and time it while it has partitions to revoke."""
    if not subscription_changed and member.is_reconciled_to(epoch):
        return member
    group = change.group
    target = Target(epoch, assignment, change.topic_ids_of(member), group.is_free)
    moved = reconcile(member, target, owned, subscription_changed)
    if moved is member or moved == member:
        return member
    invariant(
        member.epoch <= moved.epoch <= change.epoch,
        f"{group.group_id}: {member.member_id} moves from epoch {member.epoch} to {moved.epoch} in {change.epoch}",
    )
    change.write(current_record(group.group_id, moved))
    if moved.classic is None:
        if moved.state is MemberState.UNREVOKED_PARTITIONS:
            group.rebalance_epochs[moved.member_id] = moved.epoch
            change.set_timer(REBALANCE, moved.member_id, moved.rebalance_timeout_ms)
        else:
            group.rebalance_epochs.pop(moved.member_id, None)
            change.cancel_timer(REBALANCE, moved.member_id)
    return moved


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(assigned.items())
        ]
    )
