"""Moves that are held to a rate: who is held back, how far they are, and that it ends with them."""

import asyncio

from tests.unit.server.replication.cluster import DEADLINE_S, Member, running, until

from tailrace.cli.reassign import _hold_back, _let_go
from tailrace.cli.reassign_watch import watch
from tailrace.client.admin.core import Admin
from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.admin.reassignment_throttle import find_throttled
from tailrace.client.admin.replica_size import progress_of
from tailrace.client.cluster import Cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.machines.controller.record import ConfigKind
from tailrace.machines.controller.topic import NewTopic
from tailrace.runtime.broker import Broker

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
RATE = 100_000
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_who_has_the_records_leads_and_who_shall_have_them_follows() -> None:
    now = {FIRST: (1, 2), SECOND: (2, 1), TopicPartition("other", 0): (3, 1)}
    throttled = find_throttled(now, {}, {FIRST: (2, 3), SECOND: (1, 2)})
    assert throttled.topics == {"t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}}  # the second only changes its order
    assert throttled.brokers == {1, 2, 3}


def test_what_moves_already_is_held_back_too() -> None:
    now = {FIRST: (4, 1, 2), SECOND: (2, 1)}
    moving = {FIRST: Reassignment((4, 1, 2), (4,), (2,))}
    throttled = find_throttled(now, moving, {SECOND: (2, 3), TopicPartition("gone", 0): (1,)})
    assert throttled.topics == {"t": {LEADERS: "0:1,0:2,1:2,1:1", FOLLOWERS: "0:4,1:3"}}
    assert throttled.brokers == {1, 2, 3, 4}


def test_a_partition_is_as_far_as_the_slowest_of_its_new_replicas() -> None:
    move = Reassignment((3, 4, 1), (3, 4), (1,))
    assert progress_of(FIRST, move, {1: {FIRST: 200}, 3: {FIRST: 150}, 4: {FIRST: 50}}) == 0.25
    assert progress_of(FIRST, move, {1: {FIRST: 200}, 3: {FIRST: 150}}) == 0.0
    assert progress_of(FIRST, move, {1: {FIRST: 200}, 3: {FIRST: 300}, 4: {FIRST: 200}}) == 1.0
    assert progress_of(FIRST, move, {}) == 0.0


def broker_of(member: Member) -> Broker:
    assert member.server is not None
    return member.server.broker


async def test_a_throttle_lasts_as_long_as_the_move() -> None:
    """A batch comes with each fetch and costs a second. Nobody waits for all of them: the rate is raised meanwhile."""
    async with running(3, is_governed=True, replica_fetch_max_bytes="1000") as brokers:
        await until(lambda: len(brokers.metadata.image.admitted) == 3)
        controller = broker_of(brokers[brokers.metadata.image.controller_id])
        await controller.controller.create_topic(NewTopic("t", assignment={0: (1,)}), controller.topic_defaults)
        await until(lambda: brokers[1].partition().is_leader)
        for _ in range(30):
            await brokers.produce(1, b"v" * 100_000)
        image, plan = brokers.metadata.image, {FIRST: (2,)}
        async with Cluster(",".join(brokers.bootstrap_servers)) as cluster, asyncio.timeout(DEADLINE_S * 2):
            admin = Admin(cluster)
            await _hold_back(admin, plan, RATE)
            assert image.config(ConfigKind.TOPIC, "t") == {LEADERS: "0:1", FOLLOWERS: "0:2"}
            assert [image.config(ConfigKind.BROKER, each) for each in "123"] == [
                dict.fromkeys(RATES, str(RATE))
            ] * 2 + [{}]
            await until(
                lambda: (
                    [broker_of(brokers[each]).config.leader_replication_throttled_rate for each in (1, 2)] == [RATE] * 2
                )
            )
            assert await admin.alter_partition_reassignments(plan) == {FIRST: None}
            moves = await watch(cluster, plan, is_waiting=False)
            assert set(moves.moving) == {FIRST}
            assert moves.progress[FIRST] < 1.0
            assert not await _let_go(admin, plan, is_kept=False)
            assert image.config(ConfigKind.TOPIC, "t")
            await _hold_back(admin, plan, 10**9)
            assert (await watch(cluster, plan, is_waiting=True)).moving == {}
            assert not await _let_go(admin, plan, is_kept=True)
            assert await _let_go(admin, plan, is_kept=False)
            assert image.config(ConfigKind.TOPIC, "t") == {}
            assert [image.config(ConfigKind.BROKER, each) for each in "123"] == [{}, {}, {}]
            assert not await _let_go(admin, plan, is_kept=False)
