"""The plan by which the topics of the target follow those of the source. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MIRROR_CLAIM = "tailrace.mirror.claim"
"""The config of a copy that keeps offsets, which names the run that writes it."""
CONFIGS_NOT_FOLLOWED = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        MIRROR_CLAIM,
        "unclean.leader.election.enable",
    }
)
"""Configs of a cluster rather than of its data, and those that would change or refuse the timestamps of copies.

MirrorMaker 2 leaves out the same, except the two limits of timestamps that are newer than its list.
"""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of one cluster: its partition count, and its own configs (None if they were not requested)."""

    partition_count: int
    configs: Mapping[str, str] | None = None


@dataclass(slots=True)
class TopicPlan:
    """The changes to the target, by the names of its topics."""

    create: dict[str, TopicState] = field(default_factory=dict)
    grow: dict[str, int] = field(default_factory=dict)
    alter: dict[str, dict[str, str | None]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """The source topics that cannot be copied, and why."""


def plan_topics(
    source: Mapping[str, TopicState],
    target: Mapping[str, TopicState],
    names: Mapping[str, str],
    copied: frozenset[str] | set[str],
) -> TopicPlan:
    """Plan the changes for the source topics; `names` has their copies, `copied` those that this mirror has written.

    The mirror adds partitions only to topics that it has written. Another topic of the same name with fewer partitions
    has producers of its own, whose keys would change their partitions.
    """
    plan = TopicPlan()
    taken: dict[str, str] = {}
    for topic, wanted in source.items():
        copy = names[topic]
        if copy in taken:
            plan.refused[topic] = f"topics {taken[copy]} and {topic} would both be copied to {copy}"
            continue
        taken[copy] = topic
        there = target.get(copy)
        if there is None:
            plan.create[copy] = TopicState(wanted.partition_count, followed(wanted.configs or {}))
            continue
        if there.partition_count < wanted.partition_count:
            if copy not in copied:
                plan.refused[topic] = (
                    f"topic {copy} exists in the target with {there.partition_count} partitions and has "
                    f"{wanted.partition_count} in the source; add partitions to it, or choose another name with "
                    "--rename"
                )
                continue
            plan.grow[copy] = wanted.partition_count
        if wanted.configs is None or there.configs is None or copy not in copied:
            continue
        if changes := config_changes(wanted.configs, there.configs):
            plan.alter[copy] = changes
    return plan


def followed(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the configs that the target follows."""
    return {name: value for name, value in configs.items() if name not in CONFIGS_NOT_FOLLOWED}


def config_changes(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str | None]:
    """Return the configs to set, or with None to remove, so that the target has those of the source."""
    wanted, there = followed(wanted), followed(there)
    changes: dict[str, str | None] = {name: value for name, value in wanted.items() if there.get(name) != value}
    return changes | dict.fromkeys(there.keys() - wanted.keys())
