"""Members of the classic protocol in a consumer group, while the group migrates from one protocol to the other.

To such a member the group looks like a classic group in which another member is always the leader. JoinGroup does
what ConsumerGroupHeartbeat does: it reports the subscription and the partitions of the member, and moves it one step
towards its target. The member epoch is the generation. SyncGroup fetches the assignment. The reply to Heartbeat is
REBALANCE_IN_PROGRESS whenever there is a further step to take, and the member joins again.
"""

from collections import Counter
from dataclasses import replace

from tailrace.machines.group.consumer.change import JOIN, SESSION, SYNC, Change
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.heartbeat import move, note_member
from tailrace.machines.group.consumer.member import (
    ClassicMember,
    ConsumerMember,
    MemberState,
    SupportedProtocol,
    partitions_of,
)
from tailrace.machines.group.consumer.membership import admit, check_size, known_instance
from tailrace.machines.group.consumer.reconciliation import Owned
from tailrace.machines.group.consumer.setting import MigrationPolicy
from tailrace.machines.group.consumer.subscription import RegexChange, change_regex, refresh_metadata
from tailrace.machines.group.consumer.target import update_target
from tailrace.machines.group.embedded_protocol import decode_subscription, encode_assignment, partitions_by_id
from tailrace.machines.group.group import Caller
from tailrace.protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

FIRST_VERSION_WITH_TWO_STEPS = 4  # KIP-394


def check_join(change: Change, request: JoinGroupRequest, member_id: str) -> None:
    """Raise ApiError if a member of the classic protocol may not join the group."""
    group_id = change.group.group_id
    if change.setting.migration is MigrationPolicy.DISABLED:
        raise _inconsistent(
            f"Cannot join the consumer group {group_id} with the classic protocol because the group migration is"
            " disabled."
        )
    check_size(change, member_id, request.group_instance_id)
    if not _supports(change.group, request):
        raise _inconsistent(f"Member {member_id}'s protocols are not supported.")


def _inconsistent(message: str) -> ApiError:
    return ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Return whether all classic members support a common protocol, in case the group is downgraded."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    votes = Counter(name for one in classic for name in {protocol.name for protocol in one.protocols})
    return request.protocol_type == PROTOCOL_TYPE and any(
        votes[protocol.name] == len(classic) for protocol in request.protocols
    )


def needs_id(request: JoinGroupRequest, version: int) -> bool:
    """Return whether a member must join again with the member id in the reply (KIP-394)."""
    return version >= FIRST_VERSION_WITH_TWO_STEPS and request.group_instance_id is None and not request.member_id


def join(
    change: Change, caller: Caller, request: JoinGroupRequest, member_id: str
) -> tuple[ConsumerMember, Owned, bool]:
    """Update a member that joins; return it, the partitions it owns, and whether its subscription changed."""
    joining = request.group_instance_id is None or not request.member_id
    subscription = _subscription(request)
    if subscription.owned_partitions and request.group_instance_id is None and member_id not in change.group.members:
        # The member was fenced without its knowledge, and its partitions may belong to another member by now. Kafka
        # admits it as a new member, and two members own a partition for a while. The error makes it drop them at once.
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {change.group.group_id}."
        )
    former = admit(change, member_id, request.group_instance_id, joining=joining, classic=True)
    member = replace(
        former,
        instance_id=former.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or former.rack_id,
        rebalance_timeout_ms=(
            former.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMember(
            request.session_timeout_ms,
            tuple(SupportedProtocol(one.name, bytes(one.metadata)) for one in request.protocols),
        ),
    )
    names_changed = note_member(change, former, member)
    regex = change_regex(change, former, member)
    bump = names_changed or regex is not RegexChange.NONE
    if bump or change.group.is_metadata_stale(change.topics_version):
        refresh_metadata(change, member, bump)
    return member, partitions_by_id(subscription.owned_partitions, change.image), bump


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return decode_subscription(request.protocols[0].metadata)
    except RemoteProtocolError:
        raise _inconsistent("Malformed embedded consumer protocol in subscription deserialization.") from None


def step(change: Change, member: ConsumerMember, owned: Owned, subscription_changed: bool) -> ConsumerMember:
    """Move a member that has joined one step towards its target."""
    epoch, target = update_target(change, member)
    return move(change, member, epoch, target, owned, subscription_changed)


def joined(member: ConsumerMember) -> JoinGroupResponse:
    """Build the reply to a member that has joined; it is not the leader, so it fetches its assignment next."""
    protocols = () if member.classic is None else member.classic.protocols
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocols[0].name,
    )


def watch_joined(change: Change, member: ConsumerMember, request: JoinGroupRequest) -> None:
    """Time a member that has joined: it must fetch its assignment within its rebalance timeout."""
    change.group.must_rejoin.discard(member.member_id)
    change.cancel_timer(JOIN, member.member_id)
    change.set_timer(SESSION, member.member_id, request.session_timeout_ms)
    change.set_timer(SYNC, member.member_id, request.rebalance_timeout_ms)


def sync(change: Change, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give a member of the classic protocol its assignment."""
    member, classic = _known(change.group, request)
    _check_protocol(classic, request)
    if change.group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(change, member)
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    change.cancel_timer(SYNC, member.member_id)
    change.set_timer(SESSION, member.member_id, classic.session_timeout_ms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(partitions_of(member.assigned), classic.protocols[0].metadata, change.image),
    )


def heartbeat(change: Change, request: HeartbeatRequest) -> ErrorCode:
    """Restart the session of a member of the classic protocol, and tell it whether it has to join again."""
    member, classic = _known(change.group, request)
    change.set_timer(SESSION, member.member_id, classic.session_timeout_ms)
    if not _has_to_join(change.group, member):
        return ErrorCode.NONE
    _expect_join(change, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether there is a new target, or the member has partitions to revoke or to get."""
    if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = [
        (topic_id, index)
        for topic_id, indexes in group.target(member).items()
        for index in indexes - member.assigned.get(topic_id, {}).keys()
    ]
    return all(group.is_free(topic_id, index) for topic_id, index in missing)


def _expect_join(change: Change, member: ConsumerMember) -> None:
    """Time a member that has to join again, from the first reply that says so."""
    if member.member_id not in change.group.must_rejoin:
        change.group.must_rejoin.add(member.member_id)
        change.set_timer(JOIN, member.member_id, member.rebalance_timeout_ms)


def _known(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> tuple[ConsumerMember, ClassicMember]:
    """Return the member that sent a request; raise ApiError unless it is in its current generation."""
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        former = group.static_member(request.group_instance_id)
        member = known_instance(former, request.member_id, request.group_instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if member.epoch != request.generation_id:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {request.generation_id} is not equal to the member epoch {member.epoch} of"
            f" member {member.member_id}.",
        )
    return member, member.classic


def _check_protocol(classic: ClassicMember, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, PROTOCOL_TYPE):
        raise _inconsistent(f"The protocol type {request.protocol_type} is not {PROTOCOL_TYPE}.")
    if request.protocol_name not in (None, classic.protocols[0].name):
        raise _inconsistent(f"The protocol name {request.protocol_name} is not the one that the member joined with.")


def leaving(group: ConsumerGroup, request: LeaveGroupRequest) -> tuple[list[ConsumerMember], LeaveGroupResponse]:
    """Return the members that a LeaveGroup request removes, and the reply."""
    members: dict[str, ConsumerMember] = {}
    outcomes = []
    for one in request.members:
        error = ErrorCode.NONE
        try:
            member = _leaving_member(group, one.member_id, one.group_instance_id)
            members[member.member_id] = member
        except ApiError as refusal:
            error = refusal.code
        outcomes.append(
            LeaveGroupResponseMember(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        )
    return list(members.values()), LeaveGroupResponse(members=outcomes)


def _leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    # An admin client may remove a static member without its member id.
    return known_instance(member, member_id or (member.member_id if member else ""), instance_id)
