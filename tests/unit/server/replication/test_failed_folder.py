"""A disk fails under a broker of a cluster: others lead, nothing that was acknowledged is lost."""

import asyncio
import logging
from functools import partial

import pytest
from tests.unit.server.replication.cluster import Cluster, Member, running, until
from tests.unit.server.replication.test_failover import Load, check, governed

from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import NO_BROKER
from tailrace.protocol.errors import ErrorCode


def fail_syncs(member: Member) -> None:
    """From now on nothing reaches the disk of this broker's logs."""

    def hook(_number: int, operation: str, path: str) -> OSError | None:
        return OSError(5, "Input/output error") if operation.startswith("sync") and "/data-" in path else None

    member.fs.hook = hook


async def break_disk(cluster: Cluster, leader: int) -> None:
    """Have the leader find out that its disk fails, by a record that it cannot sync."""
    fail_syncs(cluster[leader])
    answer = await cluster.produce(leader, b"not synced")
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster[leader].partition().is_offline


async def test_another_replica_in_sync_leads_when_the_disk_of_the_leader_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(3, is_governed=True, min_insync_replicas="2") as cluster:
        await cluster.create(flush_messages="1")
        for number in range(5):
            assert (await cluster.produce(1, b"%d" % number)).error_code == 0
        await break_disk(cluster, 1)
        await until(lambda: cluster.state().leader in (2, 3))
        state = cluster.state()
        assert set(state.isr) == {2, 3}
        assert 1 not in state.elr
        new_leader = cluster[state.leader]
        await until(lambda: new_leader.partition().is_leader)
        assert (await cluster.produce(state.leader, b"5")).error_code == 0
        found = await cluster.values(state.leader)
        assert [value for value in found if value != b"not synced"] == [b"%d" % number for number in range(6)]
        # The broker with the failed disk says so, whoever asks, and neither leads nor follows.
        assert (await cluster.produce(1, b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await cluster.fetch(1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert cluster[1].server is not None
        assert cluster[1].partition() not in cluster[1].server.broker.fetchers._lanes
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] != []


async def test_who_is_alone_in_sync_stays_leader_when_its_disk_fails() -> None:
    async with running(2, is_governed=True) as cluster:
        await cluster.create([(1, 2)], isr=(1,), flush_messages="1")
        await until(lambda: set(cluster.state().isr) == {1, 2})
        await cluster[2].stop()
        await until(lambda: cluster.state().isr == (1,))
        before = cluster.state()
        await break_disk(cluster, 1)
        assert cluster[1].server is not None
        await cluster[1].server.broker.resignation.resign()
        assert cluster.state() == before


async def test_another_replica_in_sync_leads_when_a_bug_stops_the_leader() -> None:
    async with running(3, is_governed=True, min_insync_replicas="2") as cluster:
        await cluster.create()
        assert (await cluster.produce(1, b"a")).error_code == 0
        cluster[1].partition().go_offline(InvariantError("two leaders"))
        assert cluster[1].server is not None
        await cluster[1].server.broker.resignation.resign()  # as it does when half of the lag time is over
        await until(lambda: cluster.state().leader in (2, 3))
        state = cluster.state()
        assert 1 not in (*state.isr, *state.elr)
        await until(lambda: cluster[state.leader].partition().is_leader)
        assert (await cluster.produce(state.leader, b"b")).error_code == 0
        assert await cluster.values(state.leader) == [b"a", b"b"]
        assert (await cluster.produce(1, b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await cluster.fetch(1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_follower_that_a_bug_stops_leaves_the_isr() -> None:
    async with running(3, is_governed=True, min_insync_replicas="2") as cluster:
        await cluster.create()
        assert (await cluster.produce(1, b"a")).error_code == 0
        cluster[3].partition().go_offline(InvariantError("a bug"))
        waiting = asyncio.create_task(cluster.produce(1, b"b"))
        await cluster.expel(1, 3)
        assert (await waiting).error_code == 0
        assert set(cluster.state().isr) == {1, 2}
        assert await cluster.values(1) == [b"a", b"b"]


async def test_a_follower_whose_disk_fails_leaves_the_isr() -> None:
    async with running(3, is_governed=True, min_insync_replicas="2") as cluster:
        await cluster.create(flush_messages="1")
        assert (await cluster.produce(1, b"a")).error_code == 0
        fail_syncs(cluster[3])
        waiting = asyncio.create_task(cluster.produce(1, b"b"))
        await until(lambda: cluster[3].partition().is_offline)  # until then it fetches, and is not late
        await cluster.expel(1, 3)
        assert (await waiting).error_code == 0
        assert set(cluster.state().isr) == {1, 2}
        assert (await cluster.produce(1, b"c")).error_code == 0
        assert await cluster.values(1) == [b"a", b"b", b"c"]


async def test_a_leader_whose_disk_fails_costs_a_client_nothing() -> None:
    """It is started again, on a disk that has lost what could not be synced, and catches up."""
    async with governed(log_flush_interval_messages="1") as cluster:
        load = Load(cluster)

        def is_replaced(broker_id: int) -> bool:
            return cluster.state().leader not in (broker_id, NO_BROKER)

        async with load.running():
            for _ in range(2):
                await load.go_on()
                victim = cluster[cluster.state().leader]
                fail_syncs(victim)
                await until(partial(is_replaced, victim.broker_id))
                await load.go_on()
                await victim.crash()
                await victim.start()
                await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        await check(cluster, load)
