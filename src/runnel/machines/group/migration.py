"""How a group changes its protocol while it runs, in either direction (KIP-848).

*Up*: the first member of the new protocol joins a classic group. The group's members stay, as members of the
classic protocol in a group of the new one; what they have is their first target, in the epoch of their
generation. Whoever waits for a rebalance is told to join again.

*Down*: the last member of the new protocol goes, or its place is taken by a classic one. Those who are left
make a classic group in the generation of the group's epoch, with their targets as assignments, and are
called to a rebalance.

Both are one batch of records: the old group's tombstones, then the new group.
"""

from collections.abc import Iterable
from uuid import UUID

from runnel.base.invariant import invariant
from runnel.machines.controller.image import ClusterImage
from runnel.machines.group.assignor import NOTHING
from runnel.machines.group.classic_change import ClassicChange
from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.classic_member import ClassicGroupMember
from runnel.machines.group.consumer_change import SESSION, Change
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_member import (
    ClassicMember,
    ConsumerMember,
    SupportedProtocol,
    partitions_of,
)
from runnel.machines.group.consumer_record import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from runnel.machines.group.consumer_setting import ConsumerGroupSetting
from runnel.machines.group.consumer_subscription import hash_topics
from runnel.machines.group.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_by_id,
)
from runnel.machines.log_record import Record
from runnel.protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolTopicPartition
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.group import SyncGroupResponse


def check_upgrade(group: ClassicGroup, setting: ConsumerGroupSetting) -> None:
    """Refuse to take a classic group up, with Kafka's error: the group that was asked for does not exist."""
    reason = None
    if not setting.migration.upgrades:
        reason = "online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > setting.size_max:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _not_upgraded(group.group_id, reason)


def _not_upgraded(group_id: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {reason}.",
    )


def upgraded(classic: ClassicGroup, image: ClusterImage) -> ConsumerGroup:
    """The group of the new protocol that a classic group becomes."""
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation
    protocol = classic.protocol or classic.choose_protocol()
    try:
        held = _held(classic, protocol, image)
        for classic_member in classic.members.values():
            member = _upgraded_member(classic_member, protocol, classic.generation, held[classic_member.member_id])
            group.put(member)
            group.targets[member.member_id] = partitions_of(member.assigned)
    except RemoteProtocolError:
        raise _not_upgraded(classic.group_id, "the embedded consumer protocol is malformed") from None
    group.metadata_hash = hash_topics(group.topic_names, image)
    return group


def _held(classic: ClassicGroup, protocol: str, image: ClusterImage) -> dict[str, set[tuple[UUID, int]]]:
    """What each member may have: what it was given and, if nobody else was given it, what it said it had.

    A cooperative member keeps its partitions through a rebalance. In the middle of one, what it was given may be
    forgotten already, and what it has to let go is in no assignment. Kafka looks at assignments alone, so that
    for a moment two members can have a partition; here the member keeps it until it says otherwise.
    """
    held: dict[str, set[tuple[UUID, int]]] = {}
    claims = []
    for member_id, member in classic.members.items():
        given = decode_assignment(member.assignment)
        if given.user_data:
            raise _not_upgraded(classic.group_id, "a custom assignor keeps data of its own in the assignments")
        held[member_id] = _pairs(given.assigned_partitions, image)
        said = decode_subscription(member.metadata(protocol) or b"")
        claims.append((-said.generation_id, member_id, _pairs(said.owned_partitions, image)))
    taken = set().union(*held.values())
    for _, member_id, claimed in sorted(claims):
        held[member_id] |= claimed - taken
        taken |= claimed
    return held


def _pairs(topics: list[ConsumerProtocolTopicPartition], image: ClusterImage) -> set[tuple[UUID, int]]:
    owned = partitions_by_id(topics, image)
    return {(topic_id, index) for topic_id, indexes in owned.items() for index in indexes}


def _upgraded_member(
    member: ClassicGroupMember, protocol: str, generation: int, held: set[tuple[UUID, int]]
) -> ConsumerMember:
    subscription = decode_subscription(member.metadata(protocol) or b"")
    assigned: dict[UUID, dict[int, int]] = {}
    for topic_id, index in sorted(held):
        assigned.setdefault(topic_id, {})[index] = generation
    return ConsumerMember(
        member.member_id,
        epoch=generation,
        previous_epoch=generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMember(
            member.session_timeout_ms,
            tuple(SupportedProtocol(name, bytes(metadata)) for name, metadata in member.protocols),
        ),
    )


def write_upgrade(change: Change, classic: ClassicGroup) -> None:
    """Put the new group in the place of the classic one."""
    change.write(*classic.tombstones(), *creation_records(change.group))
    for member in change.group.classic_members:
        if member.classic is not None:
            change.set_timer(SESSION, member.member_id, member.classic.session_timeout_ms)


def send_away(waiting: ClassicChange) -> None:
    """Tell whoever waits in a classic group to join again: the group is another one by then."""
    for member_id in list(waiting.group.members):
        waiting.reply_join(member_id, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        waiting.reply_sync(member_id, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def creation_records(group: ConsumerGroup) -> list[Record]:
    """All records of a group that begins with members."""
    members = list(group.members.values())
    return [
        *(member_record(group.group_id, member) for member in members),
        epoch_record(group.group_id, group.epoch, group.metadata_hash),
        *(target_record(group.group_id, member.member_id, group.targets[member.member_id]) for member in members),
        target_epoch_record(group.group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_record(group.group_id, member) for member in members),
    ]


def may_downgrade(change: Change, gone: Iterable[ConsumerMember], *, replaced: bool = False) -> bool:
    """Whether only members of the classic protocol are left once these are gone, and they may be a classic group."""
    gone_ids = {member.member_id for member in gone}
    rest = [member for member in change.group.members.values() if member.member_id not in gone_ids]
    size = len(rest) + replaced
    return (
        all(member.classic is not None for member in rest)
        and 0 < size <= change.setting.classic_size_max
        and change.setting.migration.downgrades
    )


def downgraded(
    change: Change, gone: Iterable[ConsumerMember], joining: ConsumerMember | None = None
) -> tuple[ClassicGroup, list[Record]]:
    """The classic group that is left when these members are gone, and the records that make it so.

    `joining` is a static member of the classic protocol that takes the place of the one that is gone.
    """
    group = change.group
    gone_ids = {member.member_id for member in gone}
    former_id = next(iter(gone_ids)) if joining is not None else ""
    members = [member for member in group.members.values() if member.member_id not in gone_ids]
    classic = ClassicGroup(group.group_id, change.now_ms)
    for member in [*members, *([joining] if joining is not None else [])]:
        classic.add(_downgraded_member(member), PROTOCOL_TYPE)
    classic.generation = group.epoch - 1
    classic.start_generation(change.now_ms)
    classic.transition(ClassicState.STABLE, change.now_ms)
    for classic_member in classic.members.values():
        source_id = former_id if joining is not None and classic_member.member_id == joining.member_id else ""
        target = group.targets.get(source_id or classic_member.member_id, NOTHING)
        metadata = classic_member.metadata(classic.protocol) or b""
        classic_member.assignment = encode_assignment(target, metadata, change.image)
    assignments = {member_id: member.assignment for member_id, member in classic.members.items()}
    return classic, [*group.tombstones(), classic.to_record(assignments)]


def _downgraded_member(member: ConsumerMember) -> ClassicGroupMember:
    invariant(member.classic is not None, "a member of the new protocol cannot be in a classic group")
    classic = member.classic or ClassicMember(0, ())
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in classic.protocols),
    )
