"""Transactions over three brokers: markers to other leaders, questions between brokers, and coordinators that move."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.server.replication.cluster import Cluster, running, until
from tests.unit.server.transactor import STATE, ClusterTransactor, read_committed

from tailrace.machines.controller.record import TopicRemoved
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.transaction import coordinator as transaction_coordinator

both_versions = pytest.mark.parametrize("version", [1, 2])
both_ends = pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])


@asynccontextmanager
async def three_brokers(**settings: str) -> AsyncIterator[Cluster]:
    """Each leads one partition of `t`; broker 1 coordinates."""
    async with running(3, is_governed=False, min_insync_replicas="2", **settings) as cluster:
        await cluster.create([(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        await cluster.create([(1, 2, 3)], topic=STATE)
        yield cluster


async def begun(cluster: Cluster, version: int, *partitions: int) -> ClusterTransactor:
    """A producer that has written a record to each of these partitions."""
    producer = ClusterTransactor(cluster, version=version)
    assert await producer.patiently(producer.init) is ErrorCode.NONE
    if version == 1:
        assert await producer.add(*partitions) == {ErrorCode.NONE}
    for partition in partitions:
        assert await producer.write(partition, b"%d" % partition) is ErrorCode.NONE
    return producer


async def lose_coordinator(cluster: Cluster) -> None:
    """Kill broker 1, and do what a controller does then; nobody leads what it led but transactions."""
    await cluster[1].crash()
    await cluster.elect(2, (2, 3), topic=STATE)
    await cluster.elect(2, (2, 3), index=1)


def is_stable(cluster: Cluster) -> bool:
    """Whether no transaction holds back readers anywhere."""
    leaders = [cluster[cluster.state(index=index).leader].partition(index=index) for index in range(3)]
    return all(leader.last_stable_offset == leader.log.log_end_offset for leader in leaders)


@both_versions
@both_ends
async def test_a_transaction_ends_on_all_brokers(version: int, is_commit: bool) -> None:
    async with three_brokers() as cluster:
        producer = await begun(cluster, version, 0, 1, 2)
        for index in range(3):
            assert await read_committed(producer, index) == []
        assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
        await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
        assert is_stable(cluster)
        for index in range(3):
            assert await read_committed(producer, index) == ([b"%d" % index] if is_commit else [])
        # And the next one, by the same producer.
        if version == 1:
            assert await producer.add(2) == {ErrorCode.NONE}
        assert await producer.write(2, b"next") is ErrorCode.NONE
        assert await producer.end() is ErrorCode.NONE
        await producer.until_state("CompleteCommit")
        assert (await read_committed(producer, 2))[-1] == b"next"


async def test_a_partition_that_was_not_added_takes_nothing() -> None:
    async with three_brokers() as cluster:
        producer = await begun(cluster, 1, 0)
        assert await producer.write(1, b"lost") is ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.write(0, b"more") is ErrorCode.NONE
        stranger = ClusterTransactor(cluster)
        stranger.producer_id, stranger.epoch = producer.producer_id, producer.epoch + 1
        assert await stranger.write(1, b"lost") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert cluster[2].partition(index=1).log.log_end_offset == 0


@both_versions
@both_ends
async def test_another_coordinator_ends_what_was_decided(version: int, is_commit: bool) -> None:
    async with three_brokers() as cluster:
        producer = await begun(cluster, version, 1, 2)
        # Nobody leads partition 2, so that its marker has to wait.
        await cluster.elect(-1, (3, 1, 2), index=2)
        assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
        assert await producer.state() == ("PrepareCommit" if is_commit else "PrepareAbort")
        await until(lambda: _is_decided(cluster, 1))
        former = producer.producer_id, producer.epoch
        await lose_coordinator(cluster)
        await producer.until_state("PrepareCommit" if is_commit else "PrepareAbort")
        await cluster.elect(3, (3, 2), index=2)
        await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
        assert await read_committed(producer, 1) == ([b"1"] if is_commit else [])
        assert await read_committed(producer, 2) == ([b"2"] if is_commit else [])
        if version == 1:
            # The answer may have been lost with the coordinator.
            assert (producer.producer_id, producer.epoch) == former
            assert await producer.end(is_commit=is_commit) is ErrorCode.NONE


def _is_decided(cluster: Cluster, index: int) -> bool:
    leader = cluster[cluster.state(index=index).leader].partition(index=index)
    return leader.last_stable_offset == leader.log.log_end_offset


@both_versions
async def test_an_open_transaction_goes_on_with_another_coordinator(version: int) -> None:
    async with three_brokers() as cluster:
        producer = await begun(cluster, version, 1)
        await lose_coordinator(cluster)
        await cluster.elect(2, (2, 3), index=0)
        if version == 1:
            await producer.until_state("Ongoing")
            assert await producer.add(0) == {ErrorCode.NONE}
        assert await producer.patiently(lambda: producer.write(0, b"0")) is ErrorCode.NONE
        assert await producer.patiently(producer.end) is ErrorCode.NONE
        await producer.until_state("CompleteCommit")
        assert await read_committed(producer, 0) == [b"0"]
        assert await read_committed(producer, 1) == [b"1"]


async def test_a_former_producer_is_fenced_everywhere() -> None:
    async with three_brokers() as cluster:
        former = await begun(cluster, 1, 0, 1, 2)
        latter = ClusterTransactor(cluster)
        assert await latter.patiently(latter.init) is ErrorCode.NONE
        assert (latter.producer_id, latter.epoch > former.epoch) == (former.producer_id, True)
        for index in range(3):
            assert await former.write(index, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
            assert await read_committed(former, index) == []
        assert await former.end() is ErrorCode.PRODUCER_FENCED
        assert await former.add(1) == {ErrorCode.PRODUCER_FENCED}
        assert is_stable(cluster)


async def test_a_deleted_topic_does_not_keep_a_transaction_open() -> None:
    async with three_brokers() as cluster:
        producer = await begun(cluster, 1, 1)
        await cluster.commit(TopicRemoved("t"))
        assert await producer.end() is ErrorCode.NONE
        await producer.until_state("CompleteCommit")


@both_versions
async def test_nothing_is_written_on_the_word_of_a_record_that_may_be_lost(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator knows that the partition was added, but its followers do not: another one would not know it, and
    nobody would ever end what was written."""
    monkeypatch.setattr(transaction_coordinator, "TRANSACTION_COMMIT_MS", 100)
    async with running(3) as cluster:
        await cluster.create([(1,)])
        await cluster.create([(1, 2, 3)], topic=STATE)
        producer = ClusterTransactor(cluster, version=version)
        assert await producer.patiently(producer.init) is ErrorCode.NONE
        await cluster[2].crash()
        await cluster[3].crash()
        if version == 1:
            assert await producer.add(0) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await producer.write(0, b"0") is ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster[1].partition().log.log_end_offset == 0
        await cluster[2].start()
        await cluster.elect(1, (1,), topic=STATE)
        assert await producer.patiently(lambda: producer.write(0, b"0")) is ErrorCode.NONE
        assert await producer.patiently(producer.end) is ErrorCode.NONE
        await producer.until_state("CompleteCommit")
        assert await read_committed(producer, 0) == [b"0"]


@both_ends
async def test_no_marker_is_written_for_a_decision_that_may_be_lost(
    is_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "TRANSACTION_COMMIT_MS", 100)
    async with running(3) as cluster:
        await cluster.create([(1,)])
        await cluster.create([(1, 2, 3)], topic=STATE)
        producer = await begun(cluster, 1, 0)
        await cluster[2].crash()
        await cluster[3].crash()
        assert await producer.end(is_commit=is_commit) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.state() == "COORDINATOR_NOT_AVAILABLE"  # and nobody is told of it
        assert cluster[1].partition().log.log_end_offset == 1
        await cluster.elect(1, (1,), topic=STATE)  # what the controller does for who is still there
        await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
        assert await read_committed(producer, 0) == ([b"0"] if is_commit else [])
