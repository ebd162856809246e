"""The topics of an offset commit: their existing partitions, and the errors of the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.server.context import Operation, RequestContext, Resource


@dataclass(frozen=True, slots=True)
class CommitTopic:
    """A topic by name and id, and the error of each partition whose offset cannot be committed."""

    name: str
    topic_id: UUID
    refused: dict[int, ErrorCode]


def find_commit_topic(
    ctx: RequestContext, name: str, topic_id: UUID, indexes: Sequence[int], *, by_id: bool
) -> CommitTopic:
    """Look up a topic by its id or name; a client that may not read it learns only that."""
    found = topic_name(ctx, topic_id) if by_id else name
    if found is None:
        return CommitTopic(name, topic_id, dict.fromkeys(indexes, ErrorCode.UNKNOWN_TOPIC_ID))
    if not ctx.is_allowed(Operation.READ, Resource.TOPIC, found):
        return CommitTopic(name, topic_id, dict.fromkeys(indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    known = ctx.broker.image.topics.get(found)
    count = 0 if known is None else known.partition_count
    missing = [index for index in indexes if not 0 <= index < count]
    refused = dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return CommitTopic(found, topic_id if known is None else known.topic_id, refused)


def topic_name(ctx: RequestContext, topic_id: UUID) -> str | None:
    """Return the name of the topic with this id, or None."""
    topic = None if topic_id == ZERO_UUID else ctx.broker.image.topics_by_id.get(topic_id)
    return None if topic is None else topic.name
