"""Records that are deleted on a leader are deleted on its followers, too."""

import asyncio

from tests.unit.sample import make_batch
from tests.unit.server.replication.cluster import Cluster, running, until

from tailrace.machines.controller.record import TopicRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)


async def delete(cluster: Cluster, leader: int, offset: int, *, timeout_ms: int = 20_000) -> tuple[int, int]:
    """The error and the low watermark that a client is told."""
    connection = await cluster[leader].ask()
    try:
        asked = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        response = await connection.request(request, DeleteRecordsResponse)
        (answer,) = response.topics[0].partitions
        return answer.error_code, answer.low_watermark
    finally:
        await connection.close()


def starts(cluster: Cluster, *brokers: int) -> list[int]:
    return [cluster[broker].partition().log.log_start_offset for broker in brokers]


async def fill(cluster: Cluster) -> None:
    for number in range(4):
        assert (await cluster.produce(1, b"%d" % number)).error_code == 0


async def test_deletion_waits_until_all_replicas_have_deleted() -> None:
    # Nobody waits for the next fetch, which is a minute away.
    async with running(3, replica_fetch_wait_max_ms="60000") as cluster:
        await cluster.create()
        await fill(cluster)
        assert await delete(cluster, 1, 2) == (ErrorCode.NONE, 2)
        assert starts(cluster, 1, 2, 3) == [2, 2, 2]
        assert await delete(cluster, 1, 1) == (ErrorCode.NONE, 2)
        assert await delete(cluster, 1, -1) == (ErrorCode.NONE, 4)
        assert starts(cluster, 1, 2, 3) == [4, 4, 4]


async def test_deletion_is_not_undone_when_all_replicas_crash() -> None:
    """The followers acknowledged a log start that only their memory had. They crashed within the minute before the next
    checkpoint, one of them was elected, and the deleted records returned.
    """
    async with running(3) as cluster:
        await cluster.create()
        await fill(cluster)
        assert await delete(cluster, 1, 2) == (ErrorCode.NONE, 2)
        for broker_id in (1, 2, 3):
            await cluster[broker_id].crash()
        for broker_id in (2, 3):
            await cluster[broker_id].start()
        assert starts(cluster, 2, 3) == [2, 2]


async def test_a_new_replica_knows_the_producers_of_deleted_records() -> None:
    """The reply to a batch was lost, and the batch was deleted. A replica that had begun after it was elected, took the
    retry for the first batch of an unknown producer and wrote it again; simulated seed 61146 found it.
    """
    async with running(2) as cluster:
        topic_id = await cluster.create([(1,)])
        batch = make_batch(b"a", b"b", producer=(7, 0, 0))
        assert (await cluster.send(1, batch)).base_offset == 0
        assert await delete(cluster, 1, -1) == (ErrorCode.NONE, 2)
        await cluster.commit(TopicRecord("t", topic_id, ((1, 2),)))
        await until(lambda: cluster.state().isr == (1, 2))
        assert starts(cluster, 2) == [2]
        await cluster.elect(2, (1, 2))
        await until(lambda: cluster[2].partition().is_leader)
        answer = await cluster.send(2, batch)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert await cluster.values(2, 2) == []


async def test_deletion_waits_for_a_follower_that_cannot_write_its_log_start() -> None:
    """After the disk worked again, the deletion still waited for the next checkpoint, up to a minute later."""
    async with running(3) as cluster:
        await cluster.create()
        await fill(cluster)
        disk = cluster[3].fs
        disk.capacity_bytes = disk.used_bytes()
        assert await delete(cluster, 1, 2, timeout_ms=100) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        await until(lambda: starts(cluster, 3) == [2])
        disk.capacity_bytes = None
        assert await delete(cluster, 1, 2) == (ErrorCode.NONE, 2)


async def test_deletion_times_out_when_a_live_replica_does_not_hear_of_it() -> None:
    async with running(3) as cluster:
        await cluster.create()
        await fill(cluster)
        assert cluster[3].server is not None
        await cluster[3].server.broker.fetchers.stop()
        assert await delete(cluster, 1, 2, timeout_ms=100) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert starts(cluster, 1, 3) == [2, 0]


async def test_deletion_does_not_wait_for_a_broker_that_is_gone() -> None:
    async with running(3) as cluster:
        await cluster.create()
        await fill(cluster)
        await cluster[3].stop()
        assert await delete(cluster, 1, 1, timeout_ms=100) == (ErrorCode.REQUEST_TIMED_OUT, 0)  # it may be elected
        await cluster.elect(1, (1, 2))
        assert await delete(cluster, 1, 2) == (ErrorCode.NONE, 2)
        assert starts(cluster, 1, 2) == [2, 2]


async def test_who_waits_for_a_deletion_hears_that_another_leads() -> None:
    async with running(3) as cluster:
        await cluster.create()
        await fill(cluster)
        assert cluster[3].server is not None
        await cluster[3].server.broker.fetchers.stop()
        waiting = asyncio.create_task(delete(cluster, 1, 2))
        await until(lambda: starts(cluster, 1, 2) == [2, 2])
        await cluster.elect(2, (1, 2))
        assert await waiting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_deletion_does_not_wait_for_a_replica_that_is_no_more() -> None:
    async with running(2, replica_lag_time_max_ms="800") as cluster:
        topic_id = await cluster.create([(1, 2)])
        await fill(cluster)
        assert cluster[2].server is not None
        await cluster[2].server.broker.fetchers.stop()
        waiting = asyncio.create_task(delete(cluster, 1, 2))
        await until(lambda: starts(cluster, 1) == [2])
        await cluster.commit(TopicRecord("t", topic_id, ((1,),)))
        assert await waiting == (ErrorCode.NONE, 2)


async def test_what_retention_deletes_is_deleted_on_followers_without_new_records() -> None:
    async with running(2) as cluster:
        await cluster.create([(1, 2)], retention_ms="1000")
        await fill(cluster)
        await until(lambda: cluster[2].partition().high_watermark == 4)
        assert starts(cluster, 1, 2) == [0, 0]
        assert cluster[1].server is not None
        await cluster[1].server.broker.care.apply_retention()
        (log_start_offset,) = starts(cluster, 1)
        assert log_start_offset > 0
        await until(lambda: starts(cluster, 2) == [log_start_offset])
        leadership = cluster[1].partition().leadership
        assert leadership is not None
        await until(lambda: leadership.low_watermark == log_start_offset)


async def test_a_follower_that_had_to_truncate_its_log_hears_what_was_deleted_meanwhile() -> None:
    """The answer that had it truncate named the log start, too, and the leader did not repeat that. The follower kept
    what its leader had deleted, so it could not join the ISR until a record was appended.
    """
    async with running(2) as pair:
        await pair.create([(1, 2)])
        await fill(pair)
        await until(lambda: pair[2].partition().high_watermark == 4)
        assert pair[2].server is not None
        await pair[2].server.broker.fetchers.stop()
        assert (await pair.produce(1, b"uncommitted", acks=1)).error_code == 0
        await pair[1].stop()
        await pair.elect(2, (2,))
        await until(lambda: pair[2].partition().is_leader)
        assert await delete(pair, 2, 2) == (ErrorCode.NONE, 2)
        await pair[1].start()
        await until(lambda: pair.state().isr == (2, 1))
        assert starts(pair, 1, 2) == [2, 2]
        assert pair[1].partition().log.log_end_offset == 4
