"""The partitions of a query: those of named topics, of topics that match a pattern, or single partitions.

Topics are looked up repeatedly while a stream runs, so new partitions and new topics that match a pattern join the
query automatically.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.error import OptionError
from tailrace.spark.position import parse_partitions

ASSIGN = "assign"
SUBSCRIBE = "subscribe"
SUBSCRIBE_PATTERN = "subscribePattern"
STRATEGIES = (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN)

PartitionCounts: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Assigned:
    """Single partitions."""

    wanted: tuple[TopicPartition, ...]

    @property
    def topics(self) -> tuple[str, ...] | None:
        """The topics to look up; None for all topics."""
        return tuple(dict.fromkeys(partition.topic for partition in self.wanted))

    def partitions(self, counts: PartitionCounts) -> set[TopicPartition]:
        """Return the partitions to read, given the existing topics."""
        return {wanted for wanted in self.wanted if wanted.partition < counts.get(wanted.topic, 0)}

    def missing(self, counts: PartitionCounts) -> str | None:
        """Return a message about missing topics or partitions; None if there are none."""
        gone = sorted(set(self.wanted) - self.partitions(counts))
        return f"partition {gone[0]} does not exist" if gone else None

    @property
    def option(self) -> str:
        return ASSIGN


@dataclass(frozen=True, slots=True)
class Named:
    """All partitions of some topics."""

    topics: tuple[str, ...]

    def partitions(self, counts: PartitionCounts) -> set[TopicPartition]:
        """Return the partitions to read, given the existing topics."""
        return {TopicPartition(topic, index) for topic in self.topics for index in range(counts.get(topic, 0))}

    def missing(self, counts: PartitionCounts) -> str | None:
        """Return a message about missing topics or partitions; None if there are none."""
        gone = [topic for topic in self.topics if not counts.get(topic)]
        return f"topic {gone[0]} does not exist" if gone else None

    @property
    def option(self) -> str:
        return SUBSCRIBE


@dataclass(frozen=True, slots=True)
class Matching:
    """All partitions of the topics whose whole name matches a pattern; there may be none yet."""

    pattern: str

    @property
    def topics(self) -> tuple[str, ...] | None:
        """None, because a pattern needs all topics."""
        return None

    def partitions(self, counts: PartitionCounts) -> set[TopicPartition]:
        """Return the partitions to read, given all topics."""
        fits = re.compile(self.pattern).fullmatch
        return {TopicPartition(topic, index) for topic in counts if fits(topic) for index in range(counts[topic])}

    def missing(self, counts: PartitionCounts) -> str | None:
        """Return None, because topics may be created later."""
        return None

    @property
    def option(self) -> str:
        return SUBSCRIBE_PATTERN


Subscription: TypeAlias = Assigned | Named | Matching


def parse_subscription(option: str, text: str) -> Subscription:
    """Parse one of the three options."""
    if option == ASSIGN:
        return Assigned(parse_partitions(option, text))
    if option == SUBSCRIBE:
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError(option, f"no topic in {text!r}")
        return Named(topics)
    pattern = text.strip()
    if not pattern:
        raise OptionError(option, "the pattern is empty")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(option, f"{pattern!r} is not a regular expression: {error}") from None
    return Matching(pattern)
