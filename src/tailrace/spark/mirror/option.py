"""What a user asks of a mirror."""

import re
from dataclasses import dataclass

from tailrace.spark.mirror.job import ClusterConfig
from tailrace.spark.mirror.name import MirrorName
from tailrace.spark.mirror.rename import SAME_NAME

ALL = re.compile(".*")


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The two clusters, the topics and groups, and the names of copies."""

    name: MirrorName
    source: ClusterConfig
    target: ClusterConfig
    topics: re.Pattern[str]
    groups: re.Pattern[str] = ALL
    template: str = SAME_NAME
    replication_factor: int = -1
    task_count: int = 2
    keep_offsets: bool = False
    """Whether records keep their offsets, in copies that only the mirror writes."""
    round_s: float = 5.0
    """How long a task copies before the driver looks for new topics."""
