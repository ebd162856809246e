"""What a mirror has stored in the target: the state of its topics, and the checkpoints of groups."""

from tailrace.client.admin.core import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.offset import EARLIEST, LATEST, list_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError
from tailrace.records.record import Record
from tailrace.spark.mirror.error import MirrorError
from tailrace.spark.mirror.failover_plan import FailoverPlan, plan_failover
from tailrace.spark.mirror.name import GROUP_PREFIX, MirrorName
from tailrace.spark.mirror.record import Checkpoint, UnreadableSync, decode_checkpoint
from tailrace.spark.mirror.source_reader import SourceReader
from tailrace.spark.mirror.state import TopicStatus, decode_status

_WAIT_S = 1.0
_SUFFIX = ".internal"


async def find_mirrors(cluster: Cluster) -> list[str]:
    """Return the names of the sources of all mirrors that write to a cluster."""
    topics = await Admin(cluster).list_topics()
    names = [topic.name for topic in topics if topic.name.startswith(GROUP_PREFIX) and topic.name.endswith(_SUFFIX)]
    return [name.removeprefix(GROUP_PREFIX).removesuffix(_SUFFIX) for name in names]


async def choose_mirror(cluster: Cluster, source: str | None) -> MirrorName:
    """Return the mirror with this source, or the only one; raises `MirrorError`."""
    found = await find_mirrors(cluster)
    if source is None and len(found) == 1:
        source = found[0]
    if source is None or source not in found:
        known = f"there are mirrors from {', '.join(found)}" if found else "no mirror writes to this cluster"
        raise MirrorError(
            f"{known}; choose one with --from NAME" if source is None else f"no mirror from {source}: {known}"
        )
    return MirrorName(source, "target")


async def read_states(cluster: Cluster, name: MirrorName) -> list[TopicStatus]:
    """Return the newest state of each topic of a mirror."""
    found: dict[str, TopicStatus] = {}
    for record in await _read_all(cluster, name.state_topic):
        status = decode_status(record.value)
        if status is not None:
            found[status.topic] = status
    return [found[topic] for topic in sorted(found)]


async def read_checkpoints(cluster: Cluster, name: MirrorName) -> dict[str, dict[TopicPartition, Checkpoint]]:
    """Return the newest checkpoints of each group."""
    found: dict[str, dict[TopicPartition, Checkpoint]] = {}
    for record in await _read_all(cluster, name.checkpoints_topic):
        try:
            checkpoint = decode_checkpoint(record.key, record.value)
        except UnreadableSync:
            continue
        found.setdefault(checkpoint.group_id, {})[checkpoint.partition] = checkpoint
    return found


async def plan_failovers(cluster: Cluster, name: MirrorName, group_ids: list[str]) -> list[FailoverPlan]:
    """Return the plan of each group; changes nothing."""
    admin = Admin(cluster)
    stored = await read_checkpoints(cluster, name)
    plans = []
    for group_id in group_ids:
        checkpoints = stored.get(group_id, {})
        described = (await admin.describe_groups([group_id]))[group_id]
        member_count = 0 if isinstance(described, ApiError) else len(described.members)
        there = await admin.list_group_offsets(group_id)
        edges = await _edges(cluster, checkpoints)
        plans.append(plan_failover(group_id, checkpoints, there, edges, member_count))
    return plans


async def _edges(
    cluster: Cluster, partitions: dict[TopicPartition, Checkpoint]
) -> dict[TopicPartition, tuple[int, int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    found: dict[TopicPartition, tuple[int, int]] = {}
    view = await cluster.refresh(by_topic)
    for topic, asked in by_topic.items():
        known = view.topics.get(topic)
        numbers = [number for number in asked if known is not None and number < len(known.partitions)]
        if not numbers:
            continue
        firsts = await list_offsets(cluster, topic, dict.fromkeys(numbers, EARLIEST))
        lasts = await list_offsets(cluster, topic, dict.fromkeys(numbers, LATEST))
        found |= {TopicPartition(topic, number): (firsts[number].offset, lasts[number].offset) for number in numbers}
    return found


async def _read_all(cluster: Cluster, topic: str) -> list[Record]:
    """Return all committed records of a topic with one partition."""
    place = TopicPartition(topic, 0)
    first, last = [
        (await list_offsets(cluster, topic, {0: edge}, Isolation.READ_COMMITTED))[0].offset
        for edge in (EARLIEST, LATEST)
    ]
    reader = SourceReader(cluster, {place: first})
    found: list[Record] = []
    try:
        while not reader.is_at({place: last}):
            for fetched in await reader.next(_WAIT_S):
                found += fetched.records()
    finally:
        await reader.close()
        await cluster.close_lane(reader)
    return found
