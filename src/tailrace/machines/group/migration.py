"""Migration of a group between the classic protocol and the consumer protocol while it runs (KIP-848).

*Upgrade*: the first member of the consumer protocol joins a classic group. The members of the group stay, as members
that use the classic protocol in a consumer group. Their assignments are their first targets, and the generation is
the first epoch. Every join and sync that waits is refused, so that the members join again.

*Downgrade*: the last member of the consumer protocol leaves, or a classic member takes its place. The other members
form a classic group. The epoch of the group is its generation, and a rebalance begins. Until then the partitions that
members own are their assignments. Kafka takes their targets; a member that has not reached its target would own
partitions that the group does not know of, and after a restart, which loses the rebalance, another member could get
them.

Both are one batch of records: the tombstones of the old group, then the new group.
"""

from collections.abc import Iterable
from uuid import UUID

from tailrace.base.invariant import invariant
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.group.assignor.assignor import Assignment
from tailrace.machines.group.classic.change import refuse_join
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.member import ClassicGroupMember
from tailrace.machines.group.consumer.change import SESSION, Change
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.member import (
    ClassicMember,
    ConsumerMember,
    SupportedProtocol,
    partitions_of,
)
from tailrace.machines.group.consumer.record import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.consumer.subscription import hash_topics
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_by_id,
)
from tailrace.machines.log_record import Record
from tailrace.protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolTopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.group import SyncGroupResponse


def check_upgrade(group: ClassicGroup, setting: ConsumerGroupSetting) -> None:
    """Raise ApiError if the group may not be upgraded; in Kafka's terms, the consumer group does not exist."""
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
    """Build the consumer group that a classic group becomes."""
    invariant(classic.members, f"{classic.group_id}: a group without members is upgraded")
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
    invariant(group.members.keys() == classic.members.keys(), f"{classic.group_id}: the upgrade changes the members")
    return group


def _held(classic: ClassicGroup, protocol: str, image: ClusterImage) -> dict[str, set[tuple[UUID, int]]]:
    """Find what each member may own: its assignment, and what it reports and no other member is assigned.

    A cooperative member keeps its partitions through a rebalance. During one, the coordinator may have dropped its
    assignment already, and no assignment lists the partitions that the member has to revoke. Kafka takes the
    assignments alone, so that two members can own a partition for a moment. Here the member keeps the partition
    until it reports that it has revoked it.
    """
    held: dict[str, set[tuple[UUID, int]]] = {}
    claims = []
    for member_id, member in classic.members.items():
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise _not_upgraded(classic.group_id, "a custom assignor keeps data of its own in the assignments")
        held[member_id] = _pairs(assignment.assigned_partitions, image)
        subscription = decode_subscription(member.metadata(protocol) or b"")
        claims.append((-subscription.generation_id, member_id, _pairs(subscription.owned_partitions, image)))
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
    """Write the consumer group in place of the classic group."""
    change.write(*classic.tombstones(), *creation_records(change.group))
    for member in change.group.classic_members:
        if member.classic is not None:
            change.set_timer(SESSION, member.member_id, member.classic.session_timeout_ms)


def refuse_waiting(decision: Decision, classic: ClassicGroup) -> None:
    """Refuse every join and sync that waits in a classic group: the members join the consumer group instead."""
    for member_id, token in classic.joining.items():
        decision.reply(token, refuse_join(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    for token in classic.syncing.values():
        decision.reply(token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def creation_records(group: ConsumerGroup) -> list[Record]:
    """Build all records of a group that begins with members."""
    members = list(group.members.values())
    return [
        *(member_record(group.group_id, member) for member in members),
        epoch_record(group.group_id, group.epoch, group.metadata_hash),
        *(target_record(group.group_id, member.member_id, group.targets[member.member_id]) for member in members),
        target_epoch_record(group.group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_record(group.group_id, member) for member in members),
    ]


def may_downgrade(change: Change, gone: Iterable[ConsumerMember], *, replaced: bool = False) -> bool:
    """Return whether only classic members are left without `gone`, and they may form a classic group.

    `replaced` says that one classic member takes the place of a member in `gone`.
    """
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
    """Build the classic group of the members without `gone`, and the records of the downgrade.

    `joining` is a static member of the classic protocol that takes the place of the one member in `gone`.
    """
    group = change.group
    gone_ids = {member.member_id for member in gone}
    members = [member for member in group.members.values() if member.member_id not in gone_ids]
    newest = max((member.epoch for member in members), default=group.epoch)
    invariant(newest <= group.epoch, f"{group.group_id}: a member is in epoch {newest}, after generation {group.epoch}")
    if joining is not None:
        members.append(joining)
    owned = {member.member_id: _owned(member) for member in members}
    classic = ClassicGroup.of_generation(group.group_id, group.epoch, PROTOCOL_TYPE, map(_downgraded_member, members))
    classic.state_since_ms = change.now_ms
    classic.assign(
        {
            member_id: encode_assignment(owned[member_id], member.metadata(classic.protocol) or b"", change.image)
            for member_id, member in classic.members.items()
        }
    )
    return classic, [*group.tombstones(), classic.to_record()]


def _owned(member: ConsumerMember) -> Assignment:
    """Return all partitions that a member may own, also those that it has to revoke."""
    indexes: dict[UUID, frozenset[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, epochs in partitions.items():
            indexes[topic_id] = indexes.get(topic_id, frozenset()) | epochs.keys()
    return indexes


def _downgraded_member(member: ConsumerMember) -> ClassicGroupMember:
    invariant(member.classic is not None, f"{member.member_id}: a classic group gets a member of the consumer protocol")
    classic = member.classic or ClassicMember(0, ())
    protocols: dict[str, bytes] = {}
    for protocol in classic.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)  # the first of a name counts, as in JoinGroup
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple(protocols.items()),
    )
