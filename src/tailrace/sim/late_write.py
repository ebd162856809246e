"""A write about a topic that arrives at the metadata servers when the topic has been deleted and made again."""

import asyncio
from collections.abc import Iterator
from contextvars import Context
from functools import partial
from random import Random
from uuid import UUID

from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.layout import (
    config_path,
    node_of,
    partition_path,
    record_of,
    topic_id_node,
    topic_path,
    topic_paths,
)
from tailrace.coordination.store import ANY_VERSION, Change, Create, Delete
from tailrace.machines.controller.record import ConfigKind, PartitionRecord, TopicRecord
from tailrace.sim.world import World
from tailrace.sim.zookeeper import SimZookeeper

_LAG_S = 2.0  # longer than a leader needs to notice that a follower lags
_LATE_S = 0.3  # shorter than a connection to the metadata servers lives without answers


class LateWrites:
    """Makes a topic again while a leader's write about it is under way.

    Nothing has been written about its partition before. So the nodes of the next topic have the same versions.
    """

    def __init__(self, world: World, zookeeper: SimZookeeper, topic: str) -> None:
        self._world = world
        self._zookeeper = zookeeper
        self._topic = topic

    async def provoke(self, random: Random) -> bool:
        """Let a follower lag until its leader writes that it is out of sync, and make the topic again meanwhile.

        Return whether the topic was made again.
        """
        states = [state for state in self._unchanged() if self._next_leaders(state)]
        if not states:
            return False
        state = random.choice(states)
        follower = random.choice([broker_id for broker_id in state.isr if broker_id != state.leader])
        hosts = {broker.broker_id: broker.host for broker in self._world.brokers}
        ends, path = (hosts[follower], hosts[state.leader]), partition_path(self._topic, state.partition)
        self._world.note(f"broker {follower} is to lag behind the leader of {self._topic}-{state.partition}")
        loop = self._world.loop
        loop.network.cut(*ends)
        loop.call_at(loop.time() + _LAG_S, partial(loop.network.mend, *ends), context=Context())
        caught, _ = await asyncio.wait([self._zookeeper.hold_next(path, _LATE_S)], timeout=_LAG_S)
        return bool(caught) and self._make_again(random)

    def _unchanged(self) -> list[PartitionRecord]:
        """Return the states of partitions that nothing has been written about since the topic was made."""
        return [state for state, version in self._states() if version == 0 and state.leader != NO_BROKER]

    def _states(self) -> Iterator[tuple[PartitionRecord, int]]:
        for path, node in sorted(self._zookeeper.tree.at_or_below(topic_path(self._topic)).items()):
            record = record_of(Change(path, node))
            if isinstance(record, PartitionRecord):
                yield record, node.version

    def _next_leaders(self, state: PartitionRecord) -> list[int]:
        """Return the brokers that may lead the next topic: all but the leader that does not know of it."""
        alive = {broker.broker_id for broker in self._world.brokers if broker.is_admitted}
        return [broker_id for broker_id in state.isr if broker_id in alive and broker_id != state.leader]

    def _make_again(self, random: Random) -> bool:
        """Delete and create the topic, as a controller may at any time."""
        nodes, path = self._zookeeper.tree.nodes, topic_path(self._topic)
        config = config_path(ConfigKind.TOPIC, self._topic)
        topic = record_of(Change(path, nodes.get(path)))
        states = [state for state, _ in self._states()]
        if not isinstance(topic, TopicRecord) or not all(self._next_leaders(state) for state in states):
            return False
        self._world.count("topic made again before a late write")
        self._world.note(f"{self._topic} is made again while its leader writes about it")
        following = TopicRecord(topic.name, UUID(int=random.getrandbits(128), version=4), topic.assignment)
        leaders = [self._next_leaders(state)[0] for state in states]
        made = [
            PartitionRecord(topic.name, state.partition, leader, 0, state.isr)
            for state, leader in zip(states, leaders, strict=True)
        ]
        gone = topic_paths(topic.name, topic.topic_id, (state.partition for state in states))
        known = [each for each in gone if each in nodes]
        created = [node_of(following), topic_id_node(following.topic_id, following.name), *map(node_of, made)]
        created += [(config, nodes[config].value)] if config in nodes else []
        self._zookeeper.commit_as_world([Delete(each, ANY_VERSION) for each in known])
        self._zookeeper.commit_as_world([Create(*each) for each in created])
        return True
