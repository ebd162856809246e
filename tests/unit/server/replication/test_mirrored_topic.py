"""A copy that keeps offsets, in a cluster whose leaders die while a mirror writes it."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.replication.cluster import Cluster, running, stored, until
from tests.unit.server.replication.test_failover import governed

from tailrace.client.cluster import Cluster as ClientCluster
from tailrace.client.produce.mirror_writer import MirrorWriter
from tailrace.client.topic_partition import TopicPartition
from tailrace.machines.controller.record import ConfigKind, ConfigRecord
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import ApiError
from tailrace.records.batch import assign_offsets, read_header
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.gap import build_gap
from tailrace.storage.mirror_append import MIRRORED_PRODUCER_BIT

CLAIM = "cluster/topic/1"
COPY = TopicPartition("copy", 0)
START = 3_000_000_000


def source_batches(count: int) -> Iterator[tuple[int, bytearray]]:
    """The batches of a source from its first offset on, each with the offset behind the batch before.

    Every fifth batch follows a gap, every seventh is a marker.
    """
    offset = START
    for number in range(count):
        base_offset = offset + (7 if number % 5 == 0 else 0)
        if number % 7 == 6:
            end = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=number)
            marker = build_end_transaction_marker(end, producer_id=9, producer_epoch=0, timestamp_ms=NOW_MS)
            data = bytearray(marker)
        else:
            data = make_batch(b"%d" % number, b"more", producer=(9, 0, number), is_transactional=True)
        assign_offsets(data, 0, base_offset, 40)
        yield offset, data
        offset = read_header(data).next_offset


async def write_all(cluster: Cluster, batches: list[tuple[int, bytearray]]) -> None:
    addresses = ",".join(cluster.bootstrap_servers)
    async with ClientCluster(addresses, retry_backoff_ms=5, retry_backoff_max_ms=50) as client:
        writer = MirrorWriter(client, CLAIM)
        await writer.append(COPY, 0, b"".join(build_gap(0, START)))
        for from_offset, batch in batches:
            await writer.append(COPY, from_offset, bytes(batch))


async def test_a_copy_is_whole_on_every_replica_although_its_leaders_die() -> None:
    batches = list(source_batches(60))
    async with governed() as cluster:
        controller = cluster[cluster.metadata.image.controller_id].server
        assert controller is not None
        topic = NewTopic("copy", assignment={0: (1, 2, 3)}, configs={"tailrace.mirror.claim": CLAIM})
        await controller.broker.controller.create_topic(topic, controller.broker.topic_defaults)
        writing = asyncio.create_task(write_all(cluster, batches))
        for end in (10, 25, 40):
            reached = batches[end][0]
            await until(lambda reached=reached: writing.done() or _end(cluster) >= reached)  # type: ignore[misc]
            leader = cluster.state("copy").leader
            await cluster[leader].crash()
            await until(lambda leader=leader: cluster.state("copy").leader not in (leader, -1))  # type: ignore[misc]
            await cluster[leader].start()
            await until(lambda: len(cluster.state("copy").isr) == 3)
        await writing
        end_offset = read_header(batches[-1][1]).next_offset
        expected = [record for _, batch in batches for record in records_of(batch)]
        for member in cluster.members.values():
            partition = member.partition("copy")
            await until(lambda partition=partition: partition.high_watermark == end_offset)  # type: ignore[misc]
            assert records_of(stored(member, "copy")) == expected
            assert set(partition.log.producers.entries) == {MIRRORED_PRODUCER_BIT | 9}
        logs = {stored(member, "copy") for member in cluster.members.values()}
        assert len(logs) == 1


def _end(cluster: Cluster) -> int:
    leader = cluster.members.get(cluster.state("copy").leader)
    if leader is None or leader.server is None:
        return -1
    return leader.partition("copy").high_watermark


async def test_a_mirror_that_has_lost_its_claim_is_told_so_at_once() -> None:
    async with running(1) as cluster:
        await cluster.create([(1,)], topic="copy", tailrace_mirror_claim="another")
        async with ClientCluster(",".join(cluster.bootstrap_servers)) as client:
            writer = MirrorWriter(client, CLAIM)
            with pytest.raises(ApiError, match="PRODUCER_FENCED: another mirror has claimed copy"):
                await writer.append(COPY, 0, b"".join(build_gap(0, 5)))
            await cluster.commit(ConfigRecord(ConfigKind.TOPIC, "copy", {"tailrace.mirror.claim": CLAIM}))
            await until(lambda: cluster[1].partition("copy").config.tailrace_mirror_claim == CLAIM)
            await writer.append(COPY, 0, b"".join(build_gap(0, 5)))
            assert cluster[1].partition("copy").log.log_end_offset == 5
