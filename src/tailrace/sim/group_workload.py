"""Groups of consumers during faults: both protocols, static members, patterns, and all assignors.

The seed chooses one or two groups with three to six members, or a small one without anything special. Each member
records what it gets, gives up and loses, with its generation (or member epoch) at that moment; the members of a group
that changes between the protocols record no generation, because an empty group that is made anew begins to count again.

Some members commit automatically, and never by themselves. When all faults are healed no member leaves any more, and
soon each partition has to have exactly one owner.
"""

import asyncio
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from tailrace.client.error import CommitFailed
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.face import SimConsumer, open_consumer
from tailrace.sim.group_owner import Owners
from tailrace.sim.process import PROCESS
from tailrace.sim.record_workload import RecordWorkload, SendingClient, Shape, make_topic, try_to_poll
from tailrace.sim.workload import FAILURES, keep_trying, partition_name
from tailrace.sim.world import Program, World

Settings = dict[str, SettingValue]
Moved = Callable[[Sequence[TopicPartition]], None]

GROUP = "readers"
LATE_TOPIC = "visits"
_PATTERN = "vi.*s"
_BIG_SHARE = 0.3  # of the seeds
_CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms")
HEARTBEAT_MS = 200
_SESSIONS_MS = (1_000, 4_000)  # the longer one outlives a request that times out
_STRATEGIES: tuple[tuple[str, ...], ...] = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)
_LATE_S = (0.5, 2.5)
_BREAK_S_MAX = 0.3
_HOLD_LONGER_S = (0.1, 1.5)
_AUTOMATIC_SHARES = (0.0, 0.0, 0.5, 1.0)  # of a group's members, which commit automatically
_AUTOMATIC_MS = (100, 1_000)
_CONVERGED_S = 60.0
_LOOK_S = 0.1


class MemberShape(NamedTuple):
    """The parameters of one member."""

    group: str
    settings: Settings
    subscription: str | re.Pattern[str]
    has_generation: bool = True  # and not one that may begin to count again
    stay_s: float = math.inf  # on average, until it leaves, and joins again
    hold_share: float = 0.0  # of its commits, which the network holds until the member has given up their connection

    @property
    def is_automatic(self) -> bool:
        """Whether the member commits automatically."""
        return bool(self.settings["enable.auto.commit"])


class GroupsShape(NamedTuple):
    """The parameters of the groups of one seed."""

    members: tuple[MemberShape, ...]
    late_topic: Shape | None = None  # a topic that is created during the faults


def plain_group(shape: Shape) -> GroupsShape:
    """Return one group of dynamic members that subscribe to the topic."""
    return GroupsShape((MemberShape(GROUP, shape.member, shape.topic),) * shape.member_count)


def with_automatic_members(seed: int, groups: GroupsShape) -> GroupsShape:
    """Return the groups with some members that commit automatically."""
    random = Random(f"automatic {seed}")
    shares = {name: random.choice(_AUTOMATIC_SHARES) for name in sorted({each.group for each in groups.members})}
    return groups._replace(members=tuple(_automatic(random, shares[each.group], each) for each in groups.members))


def _automatic(random: Random, share: float, member: MemberShape) -> MemberShape:
    if random.random() >= share:
        return member
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": random.choice(_AUTOMATIC_MS)}
    return member._replace(settings={**member.settings, **settings})


def has_big_groups(seed: int) -> bool:
    """Return whether a seed is about groups."""
    return Random(f"has groups {seed}").random() < _BIG_SHARE


def session_ms(seed: int) -> int:
    """Return the session timeout of the members of a seed that is about groups."""
    return Random(f"session {seed}").choice(_SESSIONS_MS)


def choose_groups(seed: int, shape: Shape) -> GroupsShape:
    """Choose the groups of a seed that is about groups."""
    random = Random(f"groups {seed}")
    names = [GROUP] if random.random() < 0.7 else [GROUP, "watchers"]
    session: Settings = {"session.timeout.ms": session_ms(seed), "heartbeat.interval.ms": HEARTBEAT_MS}
    members = [member for name in names for member in _choose_members(random, name, shape, session, len(names))]
    has_patterns = any(isinstance(member.subscription, re.Pattern) for member in members)
    late_topic = replace(shape, topic=LATE_TOPIC, partition_count=2, producer_count=1) if has_patterns else None
    return GroupsShape(tuple(members), late_topic)


def _choose_members(random: Random, group: str, shape: Shape, session: Settings, group_count: int) -> list[MemberShape]:
    kind = random.choice(["classic", "classic", "consumer", "consumer", "mixed"])
    strategy = random.choice(_STRATEGIES if kind != "mixed" else [("range",), ("cooperative-sticky",)])
    remote = random.choice([None, "uniform", "range"])
    static_share = random.choice([0.0, 0.0, 0.5, 1.0])
    pattern_share = random.choice([0.0, 0.0, 0.5, 1.0])
    stay_s = random.choice([1.5, 4.0, math.inf])
    hold_share = random.choice([0.0, 0.1])
    found = []
    for number in range(1, random.randint(3, 6 if group_count == 1 else 3) + 1):
        protocol = random.choice(["classic", "consumer"]) if kind == "mixed" else kind
        settings: Settings = {name: value for name, value in shape.member.items() if name not in _CLASSIC_ONLY}
        settings |= {"group.protocol": protocol}
        if protocol == "classic":
            settings |= {**session, "partition.assignment.strategy": ",".join(strategy)}
        elif remote is not None:
            settings |= {"group.remote.assignor": remote}
        if random.random() < static_share:
            settings |= {"group.instance.id": f"{group}-{number}"}
        chosen = re.compile(_PATTERN) if random.random() < pattern_share else shape.topic
        found.append(MemberShape(group, settings, chosen, kind != "mixed", stay_s, hold_share))
    return found


class GroupWorkload:
    """The members of all groups, and a producer of the topic that is created late."""

    def __init__(self, world: World, groups: GroupsShape) -> None:
        self.world = world
        self.groups = groups
        self.owners = Owners()

    async def prepare(self) -> None:
        """Do nothing: the topic of the other clients exists."""

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {
            f"member-{number}": Member(self.world, member, self.owners).run
            for number, member in enumerate(self.groups.members, 1)
        }
        if self.groups.late_topic is not None:
            found["late-producer"] = LateProducer(self.world, self.groups.late_topic).run
        return found

    async def converge(self) -> list[str]:
        """Wait until each partition has one owner in each group; return what is wrong if that takes too long."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while wrong := list(self.find_wrong()):
            if loop.time() - began_s > _CONVERGED_S:
                return [f"unconverged: {_CONVERGED_S:g} s after all faults were healed {'; '.join(wrong)}"]
            await asyncio.sleep(_LOOK_S)
        self.world.note(f"the groups have converged after {loop.time() - began_s:.1f} s")
        return []

    def find_wrong(self) -> Iterator[str]:
        """Yield the partitions that no member of a group has, or several."""
        replicas = [replica for broker in self.world.brokers for replica in broker.replicas()]
        known = {TopicPartition(replica.topic, replica.index) for replica in replicas}
        for group in sorted({member.group for member in self.groups.members}):
            subscriptions = [member.subscription for member in self.groups.members if member.group == group]
            wanted = {target for target in known if any(_matches(each, target.topic) for each in subscriptions)}
            yield from self.owners.find_wrong(group, wanted)

    async def drain(self) -> None:
        if self.groups.late_topic is not None:
            await RecordWorkload(self.world, self.groups.late_topic).drain()


def _matches(subscription: str | re.Pattern[str], topic: str) -> bool:
    if isinstance(subscription, str):
        return subscription == topic
    return subscription.fullmatch(topic) is not None


class LateProducer:
    """Creates a topic that patterns match, and sends to it."""

    def __init__(self, world: World, shape: Shape) -> None:
        self._world = world
        self._shape = shape

    async def run(self, name: str) -> None:
        """Wait a little, and send until the simulation ends."""
        await asyncio.sleep(Random(f"{name} {self._world.seed}").uniform(*_LATE_S))
        await make_topic(self._world, self._shape)
        await SendingClient(RecordWorkload(self._world, self._shape)).run(name)


class Member:
    """A group member that commits what it has read, and fetches the committed offsets."""

    def __init__(self, world: World, shape: MemberShape, owners: Owners) -> None:
        self._world = world
        self._shape = shape
        self._owners = owners

    async def run(self, name: str) -> None:
        """Read as a member until the simulation ends, with breaks in which it is none."""
        random = Random(f"{name} {self._world.seed}")
        for number in itertools.count(1):
            await keep_trying(self._world, f"{name}-{number}", lambda own: self._stay(own, random))
            if self._world.is_ending:
                return
            await asyncio.sleep(random.uniform(0, _BREAK_S_MAX))

    async def _stay(self, name: str, random: Random) -> None:
        config = {**self._shape.settings, "group.id": self._shape.group}
        consumer = open_consumer(self._world, name, config)
        stay = self._owners.join(self._shape.group, name, PROCESS.get())

        def noter(change: str) -> Moved:
            return self._noter(name, consumer, change, lambda partitions: self._owners.change(stay, change, partitions))

        noted = {f"on_{change}": noter(change) for change in ("assigned", "revoked", "lost")}
        try:
            async with consumer.subscribe(self._shape.subscription, **noted):
                stay_s, now_s = self._shape.stay_s, asyncio.get_running_loop().time()
                ends_s = math.inf if stay_s == math.inf else now_s + random.expovariate(1 / stay_s)
                await self._read(name, consumer, random, ends_s)
        finally:
            self._owners.leave(stay)

    def _noter(self, name: str, consumer: SimConsumer, change: str, apply: Moved) -> Moved:
        """Return a callback that applies and records a change of the assignment."""

        def moved(partitions: Sequence[TopicPartition]) -> None:
            self._world.count(f"group {change}")
            apply(partitions)
            self._world.recorder.invoke(
                name,
                "assign",
                partitions=[partition_name(each) for each in partitions],
                change=change,
                **self._identity(consumer),
            ).ok()

        return moved

    def _identity(self, consumer: SimConsumer) -> dict[str, object]:
        """Return the group, and the member as the client knows it now; -1: it is in no generation."""
        try:
            member = consumer.group_metadata().member
        except CommitFailed:
            return {"group": self._shape.group, "member": "", "generation": -1}
        generation = member.generation_id if self._shape.has_generation else -1
        return {
            "group": self._shape.group,
            "member": member.group_instance_id or member.member_id,
            "generation": generation,
        }

    async def _read(self, name: str, consumer: SimConsumer, random: Random, ends_s: float) -> None:
        loop = asyncio.get_running_loop()
        failure: Exception | None = None
        while not self._world.is_ending and (loop.time() < ends_s or self._world.is_healed):
            records, failed = await try_to_poll(self._world, name, consumer)
            if failed is not None and failed is failure:
                raise failed  # the consumer has given up
            failure = failed
            if self._shape.is_automatic:
                pass  # the next call of poll commits
            elif records and random.random() < 0.7:
                await self._commit(name, consumer, records, random)
            elif random.random() < 0.1:
                await self._look(name, consumer)
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _commit(
        self, name: str, consumer: SimConsumer, records: Sequence[ConsumerRecord], random: Random
    ) -> None:
        offsets = {(record.topic, record.partition): record.offset + 1 for record in records}
        named = {partition_name(target): offset for target, offset in offsets.items()}
        operation = self._world.recorder.invoke(name, "commit", group=self._shape.group, offsets=named)
        if random.random() < self._shape.hold_share and not self._world.is_healed:
            self._hold(random.uniform(*_HOLD_LONGER_S))
        try:
            await consumer.commit(offsets)
        except FAILURES as error:
            operation.unknown(error)
        else:
            operation.ok()

    def _hold(self, longer_s: float) -> None:
        """Hold what this member sends on its present connections for longer than it waits for an answer.

        This holds its heartbeats as well, and often the group excludes it, so it is a fault and ends with the others.
        """
        process = PROCESS.get()
        held_s = longer_s + float(str(self._shape.settings["request.timeout.ms"])) / 1000
        self._world.count("hold commit")
        self._world.note(f"the network holds a commit of {process and process.name} for {held_s:.1f} s")
        for transport in list(self._world.loop.network.transports):
            if transport.process is process:
                transport.hold(held_s)

    async def _look(self, name: str, consumer: SimConsumer) -> None:
        operation = self._world.recorder.invoke(name, "committed", group=self._shape.group)
        try:
            found = await consumer.committed()
        except FAILURES as error:
            operation.unknown(error)
        else:
            operation.ok(offsets={partition_name(each): value.offset for each, value in found.items() if value})
