"""How each record of a consumer group changes it, live and on load alike."""

from collections.abc import MutableMapping
from typing import Any

from tailrace.base.invariant import invariant
from tailrace.machines.group.consumer.group import ConsumerGroup, ResolvedRegex
from tailrace.machines.group.consumer.record import target_assignment
from tailrace.machines.group.group import Group
from tailrace.machines.group.record.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tailrace.machines.log_record import Record

KEYS = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def replay(groups: MutableMapping[str, Group], record: Record) -> bool:
    """Replay one record; False if it is not about a consumer group."""
    key, value = record.key, record.value
    if not isinstance(key, KEYS):
        return False
    group = groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return True  # compaction has removed everything else that it was about
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        invariant(not group.members, f"consumer group {key.group_id} is deleted while it has members")
        del groups[key.group_id]
    else:
        _apply(group, key, value)
    return True


def _apply(group: ConsumerGroup, key: Any, value: Any) -> None:
    match key:
        case ConsumerGroupMetadataKey():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = value is not None
        case ConsumerGroupMemberMetadataKey():
            group.replay_member(key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey() if value is None:
            group.assignment_epoch, group.assignment_timestamp_ms = -1, 0
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ConsumerGroupTargetAssignmentMemberKey() if value is None:
            group.targets.pop(key.member_id, None)
        case ConsumerGroupTargetAssignmentMemberKey():
            group.targets[key.member_id] = target_assignment(value)
        case ConsumerGroupCurrentMemberAssignmentKey():
            group.replay_current(key.member_id, value)
        case ConsumerGroupRegularExpressionKey() if value is None:
            group.resolved.pop(key.regular_expression, None)
        case ConsumerGroupRegularExpressionKey():
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.resolved[key.regular_expression] = resolved
