"""Changes of an ISR on their way to the metadata store, and all that can become of them."""

from collections.abc import Sequence
from uuid import UUID

from tests.now import now
from tests.settled import settled
from tests.unit.runtime.test_partition_role import Bench

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.machines.controller.record import (
    REVOKED,
    BrokerAdmitted,
    BrokerRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.replica.leader import LeaderReplica
from tailrace.runtime.replication.isr import IsrKeeper
from tailrace.runtime.replication.leadership import ReplicaWorld

LAG_MAX_MS = 1_000
EPOCH = 1  # of every broker, because one commit makes all of their nodes


class World:
    """The leader of one partition and its ISR in a store that others write, too."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        self.metadata = ClusterMetadata(self.store)
        self.others = ClusterMetadata(MemoryStore(self.tree))
        self.bench = Bench()
        self.partition = self.bench.partition
        self.keeper = IsrKeeper(self.metadata, LAG_MAX_MS)
        self.world = ReplicaWorld(1, self.bench.clock, LAG_MAX_MS, self.keeper)
        self.is_slow = False  # to do what the image says

    async def begin(self, isr: tuple[int, ...] = (1, 2)) -> None:
        await self.metadata.load()
        await self.others.load()
        self.metadata.listen(self._on_records)
        await self.others.commit(
            [
                *(BrokerRecord(broker_id, EPOCH) for broker_id in (1, 2, 3)),
                *(BrokerAdmitted(broker_id, EPOCH) for broker_id in (1, 2, 3)),
                TopicRecord("t", UUID(int=1), ((1, 2, 3),)),
                PartitionRecord("t", 0, 1, 0, isr),
            ]
        )

    def _on_records(self, records: Sequence[Record]) -> None:
        for record in () if self.is_slow else records:
            if isinstance(record, PartitionRecord):
                if record.leader == 1:
                    self.partition.lead(record, (1, 2, 3), self.world)
                else:
                    self.partition.follow(record)

    @property
    def machine(self) -> LeaderReplica:
        leadership = self.partition.leadership
        assert leadership is not None
        return leadership.machine

    @property
    def stored(self) -> PartitionRecord:
        return self.others.image.topics["t"].leadership[0]

    def fetch(self, broker_id: int, offset: int = 0) -> None:
        leadership = self.partition.leadership
        assert leadership is not None
        leadership.on_fetch(broker_id, EPOCH, offset, 0)

    async def make_again(self) -> None:
        """Delete the topic and create another one with its name, which another broker leads."""
        await self.others.commit([TopicRemoved("t")])
        record = PartitionRecord("t", 0, 2, 0, (2, 1, 3))
        await self.others.commit([TopicRecord("t", UUID(int=2), ((2, 1, 3),)), record])

    def lose_followers(self, but: int | None = None) -> None:
        """Have the leader propose an ISR without those that have stopped fetching: all, or all but one."""
        self.bench.append(b"a")
        self.bench.clock.time_ms += LAG_MAX_MS + 1
        if but is not None:
            self.fetch(but, 1)
        self.keeper.shrink()

    async def settle(self) -> None:
        """Let everything happen that can."""
        await settled()


async def test_a_follower_that_caught_up_joins() -> None:
    world = World()
    await world.begin()
    world.fetch(3)
    assert world.machine.maximal_isr == {1, 2, 3}
    assert now(world.machine.isr) == (1, 2)
    await world.settle()
    assert world.stored.isr == (1, 2, 3)
    assert (world.machine.isr, world.machine.pending) == ((1, 2, 3), None)


async def test_a_follower_that_caught_up_while_another_was_let_in_joins_next() -> None:
    """It waited for half of replica.lag.time.max.ms, because it had no news that anybody looked at."""
    world = World()
    await world.begin((1,))
    world.fetch(2)
    world.fetch(3)
    assert world.machine.maximal_isr == {1, 2}
    await world.settle()
    assert world.stored.isr == (1, 2, 3)


async def test_a_follower_that_fell_behind_leaves_and_stays_eligible_while_too_few_are_left() -> None:
    world = World()
    world.bench = Bench(min_insync_replicas="2")
    world.partition = world.bench.partition
    world.world = ReplicaWorld(1, world.bench.clock, LAG_MAX_MS, world.keeper)
    await world.begin()
    world.bench.append(b"a")
    world.bench.clock.time_ms += LAG_MAX_MS + 1
    world.keeper.shrink()
    await world.settle()
    assert (world.stored.isr, world.stored.elr) == ((1,), (2,))
    assert world.partition.high_watermark == 0


async def test_isr_in_flight_a_write_that_succeeded_though_its_answer_was_lost() -> None:
    world = World()
    await world.begin()
    world.store.lose_next_answer()
    world.fetch(3)
    await world.settle()
    assert world.stored.isr == (1, 2, 3)
    # The leader does not know, and waits for all who may be in sync.
    assert now(world.machine.isr) == (1, 2)
    assert world.machine.maximal_isr == {1, 2, 3}
    world.store.resume()
    await world.settle()
    assert (world.machine.isr, world.machine.pending) == ((1, 2, 3), None)


async def test_isr_in_flight_a_write_that_never_arrived_is_tried_again() -> None:
    world = World()
    await world.begin()
    world.store.suspend()
    world.fetch(3)
    await world.settle()
    assert now(world.machine.pending) == (1, 2, 3)
    assert now(world.stored.isr) == (1, 2)
    world.store.resume()
    await world.settle()
    assert world.machine.pending is None
    world.fetch(3)
    await world.settle()
    assert world.stored.isr == (1, 2, 3)


async def test_a_follower_without_news_joins_when_it_is_admitted() -> None:
    """A leader only looks at what has news, so a quiet partition never let in who was admitted after its fetch."""
    world = World()
    await world.begin()
    await world.others.commit([BrokerAdmitted(3, EPOCH + 1)])
    world.fetch(3)
    await world.settle()
    assert now(world.stored.isr) == (1, 2)
    world.metadata.listen(world.keeper.on_records)
    await world.others.commit([BrokerAdmitted(3, EPOCH)])
    await world.settle()
    assert world.stored.isr == (1, 2, 3)


async def test_a_follower_without_news_joins_after_a_change_came_to_nothing() -> None:
    world = World()
    await world.begin()
    world.store.suspend()
    world.fetch(3)
    await world.settle()
    assert now(world.stored.isr) == (1, 2)
    world.store.resume()
    await world.settle()
    assert (world.stored.isr, world.machine.pending) == ((1, 2, 3), None)


async def test_the_controller_was_faster() -> None:
    """It has removed a broker that died, while the leader asks for another ISR on the old one's ground."""
    world = World()
    await world.begin()
    world.store.hold_news()
    world.fetch(3)
    await world.others.commit([PartitionRecord("t", 0, 1, 0, (1,))])
    await world.settle()
    world.store.release_news()
    await world.settle()
    # The broker that the controller removed stays out, and the one that has caught up is asked for again.
    assert world.stored.isr == (1, 3)
    assert (world.machine.isr, world.machine.pending) == ((1, 3), None)


async def test_zombie_leader_cannot_change_the_isr_of_its_successor() -> None:
    world = World()
    await world.begin()
    world.store.hold_news()
    await world.others.commit([PartitionRecord("t", 0, 2, 1, (2, 1))])
    world.lose_followers()
    await world.settle()
    assert (world.stored.leader, world.stored.isr) == (2, (2, 1))
    assert world.partition.high_watermark == 0
    world.store.release_news()
    assert not world.partition.is_leader


async def test_the_leader_of_a_deleted_topic_cannot_change_the_isr_of_the_next_one() -> None:
    """The nodes of both have the same versions, and both are in their first leader epoch."""
    world = World()
    await world.begin()
    world.store.hold_news()
    await world.make_again()
    world.lose_followers()
    await world.settle()
    assert (world.stored.leader, world.stored.isr) == (2, (2, 1, 3))
    world.store.release_news()


async def test_a_replica_that_outlives_its_topic_does_not_speak_for_the_next_one() -> None:
    world = World()
    await world.begin((1, 2, 3))
    world.is_slow = True
    await world.make_again()
    world.lose_followers(but=2)
    await world.settle()
    assert (world.stored.leader, world.stored.isr) == (2, (2, 1, 3))


async def test_nobody_joins_whose_admission_was_revoked_in_the_meantime() -> None:
    """It crashed and came back without its tail, and this leader has not heard of it yet."""
    world = World()
    await world.begin((1,))
    world.store.hold_news()
    await world.others.commit([BrokerAdmitted(2, REVOKED)])
    world.fetch(2)
    assert world.machine.maximal_isr == {1, 2}
    await world.settle()
    assert world.stored.isr == (1,)
    assert world.machine.pending is None


async def test_who_is_eligible() -> None:
    world = World()
    await world.begin()
    assert world.keeper.is_eligible(2, EPOCH)
    assert not world.keeper.is_eligible(2, EPOCH + 1)
    assert not world.keeper.is_eligible(9, EPOCH)
    await world.others.commit([BrokerRecord(2, EPOCH, is_stopping=True)])
    assert not world.keeper.is_eligible(2, EPOCH)
    await world.others.commit([BrokerAdmitted(3, 5)])
    assert not world.keeper.is_eligible(3, EPOCH)


async def test_isrs_are_looked_at_until_all_followers_are_in_sync_and_have_everything() -> None:
    world = World()
    await world.begin((1, 2, 3))
    assert list(world.keeper._incomplete()) == [world.partition.leadership]
    for follower_id in (2, 3):
        world.bench.fetch(follower_id, 0, broker_epoch=EPOCH)
    assert list(world.keeper._incomplete()) == []
    world.bench.append(b"a")
    assert list(world.keeper._incomplete()) == [world.partition.leadership]
    for follower_id in (2, 3):
        world.bench.fetch(follower_id, 1, broker_epoch=EPOCH)
    assert list(world.keeper._incomplete()) == []
    # One that comes back with less.
    world.bench.fetch(3, 0, broker_epoch=EPOCH)
    assert list(world.keeper._incomplete()) == [world.partition.leadership]
