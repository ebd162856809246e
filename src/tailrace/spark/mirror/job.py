"""The work of one task, and its report. Both are sent between the driver and the executors. Pure."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.name import MirrorName


@dataclass(frozen=True, slots=True, repr=False)
class ClusterConfig:
    """The client configs of one cluster in Kafka's names. Its repr has no values, which may be secret."""

    configs: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"ClusterConfig({', '.join(name for name, _ in self.configs)})"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the cluster."""
        return dict(self.configs)["bootstrap.servers"]


class PartitionJob(NamedTuple):
    """A partition to copy: the topic in the source, its copy, and the clusters that its records come through."""

    topic: str
    partition: int
    copy: str
    route: str

    @property
    def source(self) -> TopicPartition:
        """The partition in the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition in the target."""
        return TopicPartition(self.copy, self.partition)


@dataclass(frozen=True, slots=True)
class CopyJob:
    """The partitions of one bucket, and how long to copy them."""

    name: MirrorName
    run_id: str
    bucket: int
    source: ClusterConfig
    target: ClusterConfig
    partitions: tuple[PartitionJob, ...]
    duration_s: float
    until: Mapping[TopicPartition, int] | None = None
    """If not None, the task ends when it has read up to these offsets of the source."""
    claims: Mapping[str, str] | None = None
    """The claims of the copies, if they keep offsets."""


@dataclass(slots=True)
class TopicReport:
    """The progress of one topic of the source in one round of a task."""

    record_count: int = 0
    size_bytes: int = 0
    lost: int = 0
    error: str | None = None
    behind: dict[int, int] = field(default_factory=dict)
    """The number of offsets that are left to read, by partition."""

    def add(self, other: "TopicReport") -> None:
        """Add the report of another task."""
        self.record_count += other.record_count
        self.size_bytes += other.size_bytes
        self.lost += other.lost
        self.error = self.error or other.error
        self.behind |= other.behind


@dataclass(slots=True)
class CopyReport:
    """The report of one task: the progress by topic of the source, and an error that stopped the task."""

    bucket: int
    topics: dict[str, TopicReport] = field(default_factory=dict)
    error: str | None = None
    is_replaced: bool = False
    is_done: bool = False
    """Whether the task has read up to the offsets of `until`."""


def bucket_of(topic: str, partition: int, count: int) -> int:
    """Return the bucket of a partition. Neighbouring partitions are in different buckets."""
    return (zlib.crc32(topic.encode()) + partition) % count


def split_jobs(jobs: Iterable[PartitionJob], count: int) -> dict[int, tuple[PartitionJob, ...]]:
    """Return the partitions of each bucket that has any."""
    found: dict[int, list[PartitionJob]] = {}
    for job in jobs:
        found.setdefault(bucket_of(job.copy, job.partition, count), []).append(job)
    return {bucket: tuple(found[bucket]) for bucket in sorted(found)}
