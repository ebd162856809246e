"""Topics too large for one commit, made, grown and removed in several, of which any may be the last.

Nobody sees a topic before its last step, nor after the first of its end. In between it is hidden: a name, an id and
states of partitions that nobody leads. A hidden topic that no step follows, because the controller failed, is
removed by the next one.

    made      hidden, states …, then the topic with its partitions and its configuration
    grown     states of partitions that it does not have, …, then the topic with more partitions
    removed   hidden, states …, then the topic with its configuration
"""

from collections.abc import Iterator, Sequence

from runnel.base.limits import RECORDS_PER_COMMIT_MAX, TOPIC_RECORDS_TOGETHER_MAX
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import (
    PartitionRecord,
    PartitionRemoved,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)


def split_change(image: ClusterImage, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records that make or grow one topic, as they are, or in steps that are to be committed in this order."""
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
    """What is to be removed next of a topic, or nothing if it is gone."""
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
    """Groups that remove what was left half made or half removed, each to be committed before the next is taken."""
    for name in list(image.hidden):
        while name in image.hidden:
            yield next_removal(image, name)
