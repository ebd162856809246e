"""The throttle of a reassignment, as Kafka's tool sets it before and removes it after (KIP-73).

A topic names the throttled replicas: the current ones as leaders, since any of them may lead during the
reassignment, and the new ones as followers. Each of their brokers has the rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tailrace.client.admin.core import Admin, ConfigSource, ResourceType
from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS, _FOLLOWERS = _REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_SET_BY_SOMEBODY = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)


class Throttled(NamedTuple):
    """The throttled replicas: the values of two configs for each topic, and the brokers."""

    topics: dict[str, dict[str, str]]
    brokers: frozenset[int]


def find_throttled(
    now: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Sequence[int]],
) -> Throttled:
    """Return the replicas to throttle while partitions move from `now` to `targets` and others are moving already."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for partition in sorted({*targets, *moving} & set(now)):
        adding = moving[partition].adding if partition in moving else ()
        sources = [broker for broker in now[partition] if broker not in adding]
        arriving = [broker for broker in dict.fromkeys([*adding, *targets.get(partition, ())]) if broker not in sources]
        if arriving:
            leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in sources)
            followers.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in arriving)
            brokers |= {*sources, *arriving}
    values = {name: {_LEADERS: ",".join(leaders[name]), _FOLLOWERS: ",".join(followers[name])} for name in leaders}
    return Throttled(values, frozenset(brokers))


async def set_throttle(admin: Admin, throttled: Throttled, bytes_per_second: int) -> None:
    """Set the throttle. Brokers that are not running are skipped, because their configs cannot be set."""
    there = (await admin.describe_cluster()).nodes
    for name, values in throttled.topics.items():
        await admin.alter_configs(ResourceType.TOPIC, name, values)
    for broker in sorted(throttled.brokers & set(there)):
        await admin.alter_configs(ResourceType.BROKER, str(broker), dict.fromkeys(_RATES, str(bytes_per_second)))


async def clear_throttle(admin: Admin, topics: Iterable[str], *, with_rates: bool) -> bool:
    """Remove the throttle from topics and, with the rates, from brokers; returns whether there was one."""
    was_set = False
    for name in topics:
        was_set |= await _clear(admin, ResourceType.TOPIC, name, _REPLICAS)
    for broker in (await admin.describe_cluster()).nodes if with_rates else ():
        was_set |= await _clear(admin, ResourceType.BROKER, str(broker), _RATES)
    return was_set


async def _clear(admin: Admin, kind: ResourceType, name: str, options: Sequence[str]) -> bool:
    try:
        configs = await admin.describe_configs(kind, name)
    except ApiError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise
    found = [config.name for config in configs if config.name in options and config.source in _SET_BY_SOMEBODY]
    if found:
        await admin.alter_configs(kind, name, dict.fromkeys(found))
    return bool(found)
