"""The claim of a mirror in the target cluster: read, written, and enforced by fencing the tasks of earlier runs."""

import asyncio

from tailrace.client.cluster import Cluster
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import OffsetAndMetadata, fetch_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.claim import Claim, decode_claim, next_claim
from tailrace.spark.mirror.name import MirrorName
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.target_writer import TargetWriter

_TIMEOUT_MS = 30_000


async def read_claim(target: Cluster, name: MirrorName) -> Claim | None:
    """Return the claim of the newest run; None if the mirror has never run."""
    place = TopicPartition(name.syncs_topic, 0)
    coordinator = Coordinator(target, name.group_id)
    committed = await coordinator.retry(lambda: fetch_offsets(coordinator, [place]), timeout_ms=_TIMEOUT_MS)
    return decode_claim(committed[place].metadata) if place in committed else None


async def take_claim(target: Cluster, options: MirrorOptions, run_id: str, source_id: str) -> Claim:
    """Claim the mirror for a run. When this returns, no task of an earlier run writes any more.

    The claim is written in a transaction of an id that all runs use for it. If the commit succeeds, no other run has
    claimed the mirror since this one read the claim.
    """
    name = options.name
    configs = dict(options.target.configs)
    writer = TargetWriter(target, configs, name.claim_transactional_id, name.group_id)
    try:
        await writer.start()
        claim = next_claim(await read_claim(target, name), name, run_id, source_id, options.task_count)
        await writer.begin()
        await writer.commit({TopicPartition(name.syncs_topic, 0): OffsetAndMetadata(0, claim.encode())})
    finally:
        await writer.close()

    async def fence(bucket: int) -> None:
        other = TargetWriter(target, configs, name.transactional_id(bucket), name.group_id)
        try:
            await other.start()
        finally:
            await other.close()

    await asyncio.gather(*(fence(bucket) for bucket in range(claim.task_count_max)))
    return claim
