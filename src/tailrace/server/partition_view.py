"""A partition as clients see it: its leader, and its live replicas."""

from typing import NamedTuple

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.image import Topic
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.server.context import RequestContext


class PartitionView(NamedTuple):
    """A partition and its error."""

    state: PartitionRecord
    leader_id: int
    offline: list[int]
    error_code: ErrorCode


def view(ctx: RequestContext, topic: Topic, index: int) -> PartitionView:
    """Return the partition as the client of this request sees it."""
    broker = ctx.broker
    # The metadata of a topic may arrive before that of its leaders.
    state = topic.leadership.get(index) or PartitionRecord(topic.name, index, NO_BROKER, 0, ())
    replicas, there = topic.assignment[index], broker.image.brokers
    offline = broker.replicas.offline(topic, index)
    offline += [replica for replica in replicas if replica not in there and replica not in offline]
    if state.leader == NO_BROKER or state.leader in offline:
        return PartitionView(state, NO_BROKER, offline, ErrorCode.LEADER_NOT_AVAILABLE)
    return PartitionView(state, state.leader, offline, ErrorCode.NONE)
