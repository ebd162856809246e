"""Topics too large for one commit, created, grown and deleted in several; the controller may fail after any of them.

A topic is visible from the last step of its creation to the first step of its deletion. In between it is hidden: a
name, an id, and states of partitions that no broker leads. If the controller fails before the last step, the next
controller removes the hidden topic.

    create    hidden, states …, then the topic with its partitions and its configs
    grow      states of the new partitions, …, then the topic with more partitions
    delete    hidden, removed states …, then the topic with its configs
"""

from collections.abc import Iterator, Sequence

from tailrace.base.limits import RECORDS_PER_COMMIT_MAX, TOPIC_RECORDS_TOGETHER_MAX
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    PartitionRecord,
    PartitionRemoved,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)


def split_change(image: ClusterImage, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield the records that create or grow a topic, at once or in steps to be committed in this order."""
    topic = records[0] if records else None
    if not isinstance(topic, TopicRecord) or len(records) <= TOPIC_RECORDS_TOGETHER_MAX:
        yield records
        return
    states = [record for record in records if isinstance(record, PartitionRecord)]
    if topic.name not in image.topics:
        yield [TopicHidden(topic.name, topic.topic_id)]
    for start in range(0, len(states), RECORDS_PER_COMMIT_MAX):
        yield states[start : start + RECORDS_PER_COMMIT_MAX]
    yield [record for record in records if not isinstance(record, PartitionRecord)]


def next_removal(image: ClusterImage, name: str) -> list[Record]:
    """Return the next step of the removal of a topic; empty if it is gone."""
    if (topic := image.topics.get(name)) is not None:
        if len(topic.leadership) + len(topic.coming) <= TOPIC_RECORDS_TOGETHER_MAX:
            return [TopicRemoved(name)]
        return [TopicHidden(name, topic.topic_id)]
    if (hidden := image.hidden.get(name)) is None:
        return []
    if len(hidden.coming) <= RECORDS_PER_COMMIT_MAX:
        return [TopicRemoved(name)]
    return [PartitionRemoved(name, index) for index in sorted(hidden.coming)[:RECORDS_PER_COMMIT_MAX]]


def remove_hidden(image: ClusterImage) -> Iterator[list[Record]]:
    """Yield the steps that remove hidden topics, each to be committed before the next one is requested."""
    for name in list(image.hidden):
        while name in image.hidden:
            yield next_removal(image, name)
