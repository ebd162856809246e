"""The promotion of copies that keep offsets to ordinary topics, which producers may write."""

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.client.admin.core import Admin, ResourceType
from tailrace.client.admin.transaction import ProducerState
from tailrace.client.cluster import Cluster
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError
from tailrace.spark.mirror.error import MirrorError
from tailrace.spark.mirror.topic_plan import MIRROR_CLAIM

_PASSES_MAX = 10


class Promotion(NamedTuple):
    """A copy, and how many transactions were open in it."""

    topic: str
    partition_count: int
    open_count: int


async def plan_promotions(cluster: Cluster, topics: Iterable[str]) -> list[Promotion]:
    """Return the copies to promote; raises `MirrorError` if a topic is none. Changes nothing."""
    admin = Admin(cluster)
    plans = []
    for topic in dict.fromkeys(topics):
        try:
            configs = await admin.describe_configs(ResourceType.TOPIC, topic)
            partition_count = len((await cluster.topic(topic)).partitions)
        except ApiError as error:
            raise MirrorError(f"topic {topic}: {error}") from None
        if not any(config.name == MIRROR_CLAIM and config.value for config in configs):
            raise MirrorError(f"topic {topic} is not a copy of a mirror with --keep-offsets")
        opened = await _open_transactions(admin, topic, partition_count)
        plans.append(Promotion(topic, partition_count, len(opened)))
    return plans


async def promote(cluster: Cluster, plan: Promotion) -> int:
    """Take the claim away, and abort the transactions that the source had open; return how many.

    A leader may hear of the change a moment later than others, and accept one more batch of the mirror. So the leaders
    are asked again until they have no open transactions twice in a row.
    """
    admin = Admin(cluster)
    await admin.alter_configs(ResourceType.TOPIC, plan.topic, {MIRROR_CLAIM: None})
    aborted = quiet_passes = 0
    for _ in range(_PASSES_MAX):
        opened = await _open_transactions(admin, plan.topic, plan.partition_count)
        for partition, producer in opened:
            await admin.abort_transaction(partition, producer)
        aborted += len(opened)
        quiet_passes = 0 if opened else quiet_passes + 1
        if quiet_passes == 2:
            return aborted
    raise MirrorError(f"topic {plan.topic} still has open transactions: stop the mirror, and promote it again")


async def _open_transactions(
    admin: Admin, topic: str, partition_count: int
) -> list[tuple[TopicPartition, ProducerState]]:
    partitions = [TopicPartition(topic, index) for index in range(partition_count)]
    opened = []
    for partition, producers in (await admin.describe_producers(partitions)).items():
        if isinstance(producers, ApiError):
            raise MirrorError(f"{partition}: {producers}")
        opened += [(partition, one) for one in producers if one.transaction_start_offset is not None]
    return opened
