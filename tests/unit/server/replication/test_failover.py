"""Brokers with their own controller, under load from a client: they die, stop and lose their sessions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.sample import records_of
from tests.unit.server.replication.cluster import Cluster, running, stored, until

from tailrace.aio import Producer
from tailrace.machines.controller.topic import NewTopic

COUNT_PER_STEP = 50


@asynccontextmanager
async def governed(**settings: str) -> AsyncIterator[Cluster]:
    async with running(3, is_governed=True, min_insync_replicas="2", **settings) as cluster:
        await until(lambda: len(cluster.metadata.image.admitted) == 3)
        controller = cluster[cluster.metadata.image.controller_id].server
        assert controller is not None
        await controller.broker.controller.create_topic(
            NewTopic("t", assignment={0: (1, 2, 3)}), controller.broker.topic_defaults
        )
        yield cluster


class Load:
    """A producer that never stops, and what was acknowledged to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self._cluster = cluster
        self._number = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        async with Producer(self._cluster.bootstrap_servers, retry_backoff_ms=5, retry_backoff_max_ms=50) as producer:
            task = asyncio.create_task(self._run(producer))
            try:
                yield self
            finally:
                task.cancel()
                outcome = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(outcome[0], asyncio.CancelledError), outcome

    async def _run(self, producer: Producer) -> None:
        while True:
            future = await producer.send("t", b"%d" % self._number, partition=0)
            future.add_done_callback(lambda done, number=self._number: self._note(number, done))  # type: ignore[misc]
            self._number += 1
            await asyncio.sleep(0.001)

    def _note(self, number: int, done: "asyncio.Future[object]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.acknowledged.append((number, done.result().offset))  # type: ignore[attr-defined]

    async def go_on(self) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + COUNT_PER_STEP
        await until(lambda: len(self.acknowledged) >= wanted)


async def check(cluster: Cluster, load: Load) -> None:
    """Everything that was acknowledged is there, once, in order, and on all brokers."""
    await until(lambda: set(cluster.state().isr) == {1, 2, 3})
    leader = cluster[cluster.state().leader]
    await until(lambda: len({cluster[each].partition().log.log_end_offset for each in (1, 2, 3)}) == 1)
    await until(lambda: leader.partition().high_watermark == leader.partition().log.log_end_offset)
    assert stored(cluster[1]) == stored(cluster[2]) == stored(cluster[3])
    records = records_of(stored(leader))
    numbers = [int(record.value or b"") for record in records]
    assert numbers == sorted(set(numbers))
    found = {(int(record.value or b""), record.offset) for record in records}
    assert [entry for entry in load.acknowledged if entry not in found] == []


async def test_a_leader_that_dies_is_replaced_and_nothing_acknowledged_is_lost() -> None:
    async with governed() as cluster:
        load = Load(cluster)
        async with load.running():
            for _ in range(3):
                await load.go_on()
                victim = cluster[cluster.state().leader]
                await victim.crash()
                await load.go_on()
                await victim.start()
                await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        await check(cluster, load)


async def test_a_rolling_restart_costs_a_client_nothing() -> None:
    async with governed(controlled_shutdown_enable="true") as cluster:
        load = Load(cluster)
        async with load.running():
            for broker_id in (1, 2, 3):
                await load.go_on()
                await cluster[broker_id].stop()
                await load.go_on()
                await cluster[broker_id].start()
                await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        await check(cluster, load)


async def test_a_leader_whose_session_expires_stops_and_comes_back() -> None:
    async with governed() as cluster:
        load = Load(cluster)
        async with load.running():
            for _ in range(3):
                await load.go_on()
                store = cluster[cluster.state().leader].store
                assert store is not None
                store.expire()
                await load.go_on()
                await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        await check(cluster, load)


async def test_followers_die_one_after_the_other() -> None:
    async with governed() as cluster:
        load = Load(cluster)
        async with load.running():
            for broker_id in (2, 3, 2):
                if cluster.state().leader == broker_id:
                    continue
                await load.go_on()
                await cluster[broker_id].crash()
                await load.go_on()
                await cluster[broker_id].start()
                await until(lambda: set(cluster.state().isr) == {1, 2, 3})
        await check(cluster, load)


async def test_a_topic_that_is_made_while_a_broker_starts_is_not_missed() -> None:
    """The broker was opening its logs, and nobody told it of the change that its image had seen."""
    async with governed() as cluster:
        await cluster[3].stop()
        starting = asyncio.create_task(cluster[3].start())
        controller = cluster[cluster.metadata.image.controller_id].server
        assert controller is not None
        for number in range(20):
            name = f"made-{number}"
            new = NewTopic(name, assignment={0: (1, 2, 3)})
            await controller.broker.controller.create_topic(new, controller.broker.topic_defaults)
        await starting
        for number in range(20):
            name = f"made-{number}"
            await until(lambda name=name: set(cluster.state(name).isr) == {1, 2, 3})  # type: ignore[misc]
