"""What clients are told about who leads a partition and which of its replicas are there."""

from typing import NamedTuple

from runnel.machines.controller.image import Topic
from runnel.machines.controller.record import NO_BROKER, PartitionRecord
from runnel.protocol.errors import ErrorCode
from runnel.server.context import RequestContext


class PartitionView(NamedTuple):
    """A partition, and what is wrong with it."""

    state: PartitionRecord
    leader_id: int
    offline: list[int]
    error_code: ErrorCode


def view(ctx: RequestContext, topic: Topic, index: int) -> PartitionView:
    """The partition as the client of this request should see it."""
    broker = ctx.broker
    # The news of a topic may come before that of its leaders.
    state = topic.leadership.get(index) or PartitionRecord(topic.name, index, NO_BROKER, 0, ())
    replicas, there = topic.assignment[index], broker.image.brokers
    offline = broker.replicas.offline(topic, index)
    offline += [replica for replica in replicas if replica not in there and replica not in offline]
    if state.leader == NO_BROKER or state.leader in offline:
        return PartitionView(state, NO_BROKER, offline, ErrorCode.LEADER_NOT_AVAILABLE)
    return PartitionView(state, state.leader, offline, ErrorCode.NONE)
