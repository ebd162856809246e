"""Tailrace's own producer in transactions over three brokers whose coordinator and leaders go."""

import asyncio
from typing import Any

import pytest
from tests.unit.server.replication.cluster import Cluster, until
from tests.unit.server.replication.test_transaction_cluster import is_stable, lose_coordinator, three_brokers
from tests.unit.server.transactor import ClusterTransactor, read_committed

import tailrace
from tailrace.client.transaction.coordinator import TransactionCoordinator

QUICK: dict[str, Any] = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 50}
COUNT = 24


@pytest.fixture(params=["v1", "v2"])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of doing transactions."""
    if request.param == "v1":

        async def is_v2(self: TransactionCoordinator) -> bool:
            return False

        monkeypatch.setattr(TransactionCoordinator, "is_v2", is_v2)
    return str(request.param)


async def write(producer: tailrace.aio.Producer, number: int) -> None:
    """A record for each partition."""
    for partition in range(3):
        await producer.send("t", b"%d" % number, partition=partition)


async def go_on(producer: tailrace.aio.Producer, begun: asyncio.Event) -> list[bytes]:
    """Transactions one after the other, of which every third is aborted; those that must be seen."""
    committed = []
    for number in range(COUNT):
        await producer.begin_transaction()
        await write(producer, number)
        if number == COUNT // 3:
            begun.set()
        if number % 3 == 2:
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
            committed.append(b"%d" % number)
    return committed


@pytest.mark.usefixtures("generation")
async def test_the_coordinator_goes_in_the_middle_of_transactions() -> None:
    async with three_brokers() as cluster:
        begun = asyncio.Event()
        async with tailrace.aio.Producer(cluster.bootstrap_servers, transactional_id="id", **QUICK) as producer:
            writing = asyncio.create_task(go_on(producer, begun))
            await begun.wait()
            await lose_coordinator(cluster)
            await cluster.elect(2, (2, 3), index=0)
            await cluster.elect(3, (3, 2), index=2)
            committed = await writing
        await until(lambda: is_stable(cluster))
        for partition in range(3):
            assert await read_committed(ClusterTransactor(cluster), partition) == committed


@pytest.mark.usefixtures("generation")
async def test_leaders_change_while_transactions_are_open() -> None:
    async with three_brokers() as cluster:
        begun = asyncio.Event()
        async with tailrace.aio.Producer(cluster.bootstrap_servers, transactional_id="id", **QUICK) as producer:
            writing = asyncio.create_task(go_on(producer, begun))
            await begun.wait()
            for leader in (2, 3, 1, 3):
                await elect_everywhere(cluster, leader)
            committed = await writing
        await until(lambda: is_stable(cluster))
        for partition in range(3):
            assert await read_committed(ClusterTransactor(cluster), partition) == committed


async def elect_everywhere(cluster: Cluster, leader: int) -> None:
    """Have one broker lead all partitions of `t`, whose replicas are all in sync."""
    for index in range(3):
        await cluster.elect(leader, (1, 2, 3), index=index)
    await asyncio.sleep(0.05)  # for some transactions in between; nothing depends on it


async def test_what_was_prepared_is_completed_at_another_coordinator() -> None:
    async with three_brokers(transaction_two_phase_commit_enable="true") as cluster:
        settings: dict[str, Any] = {"transactional_id": "id", "transaction_two_phase_commit_enable": True}
        async with tailrace.aio.Producer(cluster.bootstrap_servers, **settings, **QUICK) as producer:
            await producer.begin_transaction()
            await write(producer, 7)
            prepared = await producer.prepare_transaction()
        assert prepared is not None
        await lose_coordinator(cluster)
        await cluster.elect(2, (2, 3), index=0)
        await cluster.elect(3, (3, 2), index=2)
        async with tailrace.aio.Admin(cluster.bootstrap_servers, **QUICK) as admin:
            await admin.complete_transaction(prepared)
            await admin.complete_transaction(prepared)
        await until(lambda: is_stable(cluster))
        for partition in range(3):
            assert await read_committed(ClusterTransactor(cluster), partition) == [b"7"]
