"""A group's coordinator goes with the leader of its partition, and says nothing that could be lost."""

import asyncio

from tests.unit.server.replication.cluster import Cluster, running, until

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)

OFFSETS = "__consumer_offsets"


async def commit(cluster: Cluster, broker_id: int, offset: int) -> ErrorCode:
    """Commit an offset of partition 0 of topic t for group g, without being a member."""
    connection = await cluster[broker_id].ask()
    try:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
        response = await connection.request(request, OffsetCommitResponse, version_max=8)
        return ErrorCode(response.topics[0].partitions[0].error_code)
    finally:
        await connection.close()


async def committed(cluster: Cluster, broker_id: int) -> int | ErrorCode:
    """The offset that was committed, or why it is not told."""
    connection = await cluster[broker_id].ask()
    try:
        group = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0])]
        )
        request = OffsetFetchRequest(groups=[group])
        response = await connection.request(request, OffsetFetchResponse, version_max=8)
        (answer,) = response.groups
        return ErrorCode(answer.error_code) if answer.error_code else answer.topics[0].partitions[0].committed_offset
    finally:
        await connection.close()


async def loaded(cluster: Cluster, broker_id: int) -> int | ErrorCode:
    """The offset, once the coordinator has read its log."""
    found = await committed(cluster, broker_id)
    async with asyncio.timeout(60):
        while found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0.01)
            found = await committed(cluster, broker_id)
    return found


async def begin(cluster: Cluster) -> None:
    await cluster.create()
    await cluster.create([(1, 2, 3)], topic=OFFSETS)
    await loaded(cluster, 1)


async def test_a_new_coordinator_knows_what_the_old_one_acknowledged() -> None:
    async with running(3, min_insync_replicas="2") as cluster:
        await begin(cluster)
        for offset in range(1, 6):
            assert await commit(cluster, 1, offset) is ErrorCode.NONE
        assert await commit(cluster, 2, 9) is ErrorCode.NOT_COORDINATOR
        assert await committed(cluster, 3) is ErrorCode.NOT_COORDINATOR
        await cluster[1].kill()
        await cluster.elect(2, (2, 3), topic=OFFSETS)
        assert await loaded(cluster, 2) == 5
        assert await commit(cluster, 2, 6) is ErrorCode.NONE
        # And back, by an election that nobody died for.
        await cluster[1].start()
        await until(lambda: set(cluster.state(OFFSETS).isr) == {1, 2, 3})
        await cluster.elect(1, (1, 2, 3), topic=OFFSETS)
        assert await committed(cluster, 2) is ErrorCode.NOT_COORDINATOR
        assert await loaded(cluster, 1) == 6


async def test_nothing_is_told_before_what_was_there_at_the_election_is_committed() -> None:
    """What a new leader has beyond the high watermark may be cut away yet, if another is elected."""
    async with running(3) as cluster:
        await begin(cluster)
        assert await commit(cluster, 1, 1) is ErrorCode.NONE
        await cluster[3].stop()
        waiting = asyncio.create_task(commit(cluster, 1, 2))
        await until(lambda: cluster[2].partition(OFFSETS).log.log_end_offset == 2)
        await cluster.elect(2, (1, 2, 3), topic=OFFSETS)
        assert await waiting is ErrorCode.NOT_COORDINATOR
        assert await committed(cluster, 2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster[3].start()
        assert await loaded(cluster, 2) == 2


async def test_an_offset_that_is_not_on_all_replicas_in_sync_is_neither_acknowledged_nor_told() -> None:
    async with running(2, offsets_commit_timeout_ms="100") as cluster:
        await cluster.create([(1, 2)])
        await cluster.create([(1, 2)], topic=OFFSETS)
        await loaded(cluster, 1)
        while await commit(cluster, 1, 1) is not ErrorCode.NONE:
            pass  # a busy machine may need longer than that
        end_offset = cluster[1].partition(OFFSETS).log.log_end_offset
        await cluster[2].stop()
        assert await commit(cluster, 1, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committed(cluster, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await cluster[2].start()
        await until(lambda: cluster[1].partition(OFFSETS).high_watermark == end_offset + 1)
        assert await committed(cluster, 1) == 2
