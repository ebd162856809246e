"""The hints that tell a refused client which broker is the leader, so it need not look it up (KIP-951).

A broker that is the leader in the metadata but may not lead now names itself. Clients follow a hint only
if its epoch is newer than the one they know, so this cannot send them in a circle.
"""

from collections.abc import Iterable
from uuid import UUID

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.image import Node
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchResponse, FetchResponseLeader, FetchResponseNode
from tailrace.protocol.messages.produce import ProduceResponse, ProduceResponseLeader, ProduceResponseNode
from tailrace.server.context import RequestContext

FIRST_PRODUCE_VERSION = 10
FIRST_FETCH_VERSION = 16
_FETCH_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def hint_producer(ctx: RequestContext, response: ProduceResponse) -> None:
    """Name the leaders of the partitions that this broker does not lead."""
    leaders = set()
    for topic in response.responses:
        for reply in topic.partition_responses:
            if reply.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader, epoch = _leader(ctx, topic.topic_id, topic.name, reply.index)
                if leader != NO_BROKER:
                    reply.current_leader = ProduceResponseLeader(leader_id=leader, leader_epoch=epoch)
                    leaders.add(leader)
    response.node_endpoints = [
        ProduceResponseNode(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in _nodes(ctx, leaders)
    ]


def hint_reader(ctx: RequestContext, response: FetchResponse) -> None:
    """Name the leaders of the partitions that this broker does not lead, or leads in a later epoch."""
    leaders = set()
    for topic in response.responses:
        for reply in topic.partitions:
            if reply.error_code in _FETCH_ERRORS:
                leader, epoch = _leader(ctx, topic.topic_id, topic.topic, reply.partition_index)
                if leader != NO_BROKER:
                    reply.current_leader = FetchResponseLeader(leader_id=leader, leader_epoch=epoch)
                    leaders.add(leader)
    response.node_endpoints = [
        FetchResponseNode(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in _nodes(ctx, leaders)
    ]


def _leader(ctx: RequestContext, topic_id: UUID, name: str, index: int) -> tuple[int, int]:
    image = ctx.broker.image
    topic = image.topics_by_id.get(topic_id) or image.topics.get(name)
    state = None if topic is None else topic.leadership.get(index)
    return (NO_BROKER, -1) if state is None else (state.leader, state.leader_epoch)


def _nodes(ctx: RequestContext, leaders: Iterable[int]) -> list[Node]:
    wanted = set(leaders)
    return [node for node in ctx.nodes if node.node_id in wanted] if wanted else []
