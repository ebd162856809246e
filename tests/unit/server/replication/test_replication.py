"""Brokers that replicate from each other over sockets; elections are written by hand."""

import asyncio

from tests.unit.server.replication.cluster import running, stored, until

from tailrace.protocol.errors import ErrorCode


async def test_what_is_acknowledged_is_on_every_replica_in_sync() -> None:
    async with running(3) as cluster:
        await cluster.create()
        for number in range(5):
            answer = await cluster.produce(1, b"%d" % number)
            assert (answer.error_code, answer.base_offset) == (0, number)
            assert [cluster[other].partition().log.log_end_offset for other in (1, 2, 3)] == [number + 1] * 3
        assert stored(cluster[1]) == stored(cluster[2]) == stored(cluster[3])
        assert await cluster.values(1) == [b"0", b"1", b"2", b"3", b"4"]
        await until(lambda: cluster[2].partition().high_watermark == 5)
        assert await cluster.values(2) == await cluster.values(1)


async def test_only_the_leader_takes_records() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2), (2, 1), (2,)])
        assert (await cluster.produce(2, b"a")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(2, b"a", index=1)).error_code == 0
        assert (await cluster.produce(1, b"a", index=2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.fetch(1, index=2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_dies_and_nothing_acknowledged_is_lost() -> None:
    async with running(3, min_insync_replicas="2") as cluster:
        await cluster.create()
        for number in range(10):
            assert (await cluster.produce(1, b"%d" % number)).error_code == 0
        await cluster[1].kill()
        await cluster.elect(2, (2, 3))
        assert (await cluster.produce(2, b"10")).error_code == 0
        expected = [b"%d" % number for number in range(11)]
        assert await cluster.values(2) == expected
        # The old leader comes back, catches up and joins again.
        await cluster[1].start()
        await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        assert stored(cluster[1]) == stored(cluster[2]) == stored(cluster[3])
        await cluster.elect(1, (1, 2, 3))
        assert await cluster.values(1) == expected


async def test_a_fork_is_cut_away() -> None:
    """The leader had records that nobody else has; it comes back as a follower."""
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        assert (await cluster.produce(1, b"common")).error_code == 0
        await cluster[2].stop()
        assert (await cluster.produce(1, b"fork", acks=1)).error_code == 0
        assert (await cluster.produce(1, b"fork", acks=1)).error_code == 0
        await cluster[1].kill()
        await cluster[2].start()
        await cluster.elect(2, (2,))
        assert (await cluster.produce(2, b"other")).error_code == 0
        await cluster[1].start()
        await until(lambda: set(cluster.state().isr) == {1, 2})
        assert stored(cluster[1]) == stored(cluster[2])
        assert await cluster.values(2) == [b"common", b"other"]


async def test_a_follower_that_stops_leaves_the_isr_and_comes_back() -> None:
    async with running(3, min_insync_replicas="2") as cluster:
        await cluster.create()
        await cluster.produce(1, b"a")
        await cluster[3].stop()
        waiting = asyncio.create_task(cluster.produce(1, b"b"))
        await cluster.expel(1, 3)
        assert (await waiting).error_code == 0
        assert set(cluster.state().isr) == {1, 2}
        await cluster[2].stop()
        waiting = asyncio.create_task(cluster.produce(1, b"c"))
        await cluster.expel(1, 2)
        assert (await waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (cluster.state().isr, cluster.state().elr) == ((1,), (2,))
        assert (await cluster.produce(1, b"d")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await cluster.values(1) == [b"a", b"b"]
        await cluster[3].start()
        await until(lambda: set(cluster.state().isr) == {1, 3})
        assert cluster.state().elr == ()
        await until(lambda: cluster[1].partition().high_watermark == 3)
        assert await cluster.values(1) == [b"a", b"b", b"c"]


async def test_an_acknowledgement_that_does_not_come_in_time() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)])
        await cluster[2].stop()
        answer = await cluster.produce(1, b"a", timeout_ms=50)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert await cluster.values(1) == []


async def test_who_waits_for_an_acknowledgement_hears_that_another_leads() -> None:
    async with running(3) as cluster:
        await cluster.create([(1, 2)])
        await cluster[2].stop()
        waiting = asyncio.create_task(cluster.produce(1, b"a"))
        await until(lambda: cluster[1].partition().log.log_end_offset == 1)
        await cluster.elect(2, (2,))
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
