"""Partitions that move at no more than a rate, as Kafka's tool has it: set before they go, taken back after (KIP-73).

A topic names the replicas that are held back: those that have the records now as leaders, since any of them may
lead on the way, and those that shall have them as followers. Each broker of either kind has the rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from runnel.client.admin import Admin, ConfigSource, ResourceType
from runnel.client.admin_reassignment import Reassignment
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS, _FOLLOWERS = _REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_SET_BY_SOMEBODY = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)


class Throttled(NamedTuple):
    """Who is held back: by topic the value of its two options, and the brokers."""

    topics: dict[str, dict[str, str]]
    brokers: frozenset[int]


def find_throttled(
    now: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Sequence[int]],
) -> Throttled:
    """Who is to be held back while partitions go from where they are `now` to `targets`, and others move already."""
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
    """Hold back who is named. A broker that is not there now is left out, for nobody can tell it."""
    there = (await admin.describe_cluster()).nodes
    for name, values in throttled.topics.items():
        await admin.alter_configs(ResourceType.TOPIC, name, values)
    for broker in sorted(throttled.brokers & set(there)):
        await admin.alter_configs(ResourceType.BROKER, str(broker), dict.fromkeys(_RATES, str(bytes_per_second)))


async def clear_throttle(admin: Admin, topics: Iterable[str], *, with_rates: bool) -> bool:
    """Hold back nobody of some topics any more and, with the rates, no broker; whether anybody was held back."""
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
