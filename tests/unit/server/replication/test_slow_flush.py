"""A leader is succeeded while its disk is slow: what the next leader does not have is not acknowledged."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.sample import make_batch
from tests.unit.server.replication.cluster import Cluster, Member, running, until

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.runtime.coordinator.topic import TRANSACTION_TOPIC


class SlowDisk:
    """The next sync of a segment that a worker thread makes takes until it may go on."""

    def __init__(self) -> None:
        self.is_syncing = False
        self._may_go_on = threading.Event()

    def hook(self, _number: int, operation: str, path: str) -> OSError | None:
        is_aside = threading.current_thread() is not threading.main_thread()
        if operation == "sync" and path.endswith(".log") and is_aside and not self.is_syncing:
            self.is_syncing = True
            assert self._may_go_on.wait(60)
        return None

    def go_on(self) -> None:
        self._may_go_on.set()


@contextmanager
def slow_disk(member: Member) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    member.fs.hook = disk.hook
    try:
        yield disk
    finally:
        disk.go_on()


async def stop_following(member: Member) -> None:
    """From now on the broker fetches nothing."""
    assert member.server is not None
    await member.server.broker.fetchers.stop()


async def produce_to_all(cluster: Cluster, leader: int, topics: list[str]) -> dict[str, int]:
    """One request with a record for each topic; the codes."""
    connection = await cluster[leader].ask()
    try:
        data = [ProduceRequestPartition(index=0, records=bytes(make_batch(b"lost")))]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=0,  # nobody fetches what is not lost
            topic_data=[ProduceRequestTopic(name=name, partition_data=data) for name in topics],
        )
        response = await connection.request(request, ProduceResponse, version_max=9)
        return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    finally:
        await connection.close()


@pytest.mark.parametrize("lost", ["flushed", "plain"])
async def test_what_was_cut_away_during_a_flush_is_not_acknowledged(lost: str) -> None:
    """The flush of a leader took longer than an election.

    It followed by then, had cut the record away and held others in its place, which were committed; so it took the
    record for committed. The same happened to a record that only came in one request with one that was flushed.
    """
    async with running(2) as cluster:
        await cluster.create([(1, 2)], topic="flushed", flush_messages="1")
        await cluster.create([(1, 2)], topic="plain")
        await stop_following(cluster[2])
        with slow_disk(cluster[1]) as disk:
            produced = asyncio.create_task(produce_to_all(cluster, 1, ["flushed", "plain"]))
            await until(lambda: disk.is_syncing)
            await cluster.elect(2, (2,), topic=lost)
            await until(lambda: cluster[2].partition(lost).is_leader)
            assert (await cluster.produce(2, b"other", topic=lost)).error_code == 0
            await until(lambda: cluster[1].partition(lost).high_watermark == 1)
            assert await cluster.values(1, topic=lost) == [b"other"]
            disk.go_on()
            async with asyncio.timeout(60):
                codes = await produced
        assert codes[lost] == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def init_producer(cluster: Cluster, broker_id: int) -> InitProducerIdResponse:
    connection = await cluster[broker_id].ask()
    try:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        return await connection.request(request, InitProducerIdResponse, version_max=5)
    finally:
        await connection.close()


async def test_a_decision_that_was_cut_away_during_a_flush_is_not_told() -> None:
    """A coordinator that was succeeded while its decision was flushed told of it, though the next has decided else."""
    async with running(2) as cluster:
        await cluster.create([(1, 2)], topic=TRANSACTION_TOPIC, flush_messages="1")
        for member in cluster.members.values():
            assert member.server is not None
            await member.server.broker.transactions.loaded()
        await stop_following(cluster[2])
        with slow_disk(cluster[1]) as disk:
            asked = asyncio.create_task(init_producer(cluster, 1))
            await until(lambda: disk.is_syncing)
            await cluster.elect(2, (2,), topic=TRANSACTION_TOPIC)
            await until(lambda: cluster[2].partition(TRANSACTION_TOPIC).is_leader)
            assert cluster[2].server is not None
            await cluster[2].server.broker.transactions.loaded()
            assert (await init_producer(cluster, 2)).error_code == 0
            await until(lambda: cluster[1].partition(TRANSACTION_TOPIC).high_watermark == 1)
            disk.go_on()
            async with asyncio.timeout(60):
                reply = await asked
        assert reply.error_code == ErrorCode.NOT_COORDINATOR
