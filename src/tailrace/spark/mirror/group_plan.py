"""The offsets of groups in the target: checkpoints, and what is committed while a group is inactive there. Pure."""

from collections.abc import Mapping

from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.record import Checkpoint
from tailrace.spark.mirror.translation import Translation

Committed = Mapping[TopicPartition, OffsetAndMetadata]

INACTIVE_STATES = frozenset({"Empty", "Dead"})
"""The states of a group without members, with Kafka's names."""


def translate_group(
    group_id: str,
    committed: Committed,
    translations: Mapping[TopicPartition, Translation],
    names: Mapping[str, str],
) -> dict[TopicPartition, Checkpoint]:
    """Return the checkpoints of a group by partition of the target, as far as its offsets can be translated."""
    found = {}
    for partition, position in committed.items():
        translation = translations.get(partition)
        if translation is None or partition.topic not in names:
            continue
        offset = translation.translate(position.offset)
        if offset is not None:
            copy = TopicPartition(names[partition.topic], partition.partition)
            found[copy] = Checkpoint(group_id, copy, position.offset, offset, position.metadata)
    return found


def plan_commits(checkpoints: Mapping[TopicPartition, Checkpoint], there: Committed) -> dict[TopicPartition, int]:
    """Return the offsets to commit for an inactive group: those that are ahead of what it has in the target.

    A group that has read on in the target is never set back.
    """
    return {
        partition: checkpoint.target_offset
        for partition, checkpoint in checkpoints.items()
        if partition not in there or there[partition].offset < checkpoint.target_offset
    }
