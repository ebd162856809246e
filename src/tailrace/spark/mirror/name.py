"""The names that a mirror uses in the target cluster: its group, its transactional ids and its topics. Pure."""

import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

GROUP_PREFIX = "tailrace-mirror."
HEARTBEATS_TOPIC = "heartbeats"
"""MirrorMaker 2's topic of heartbeats."""


def name_problem(name: str) -> str | None:
    """Return why `name` cannot be the name of a cluster, or None if it can."""
    if _NAME.fullmatch(name):
        return None
    return f"{name!r} is not the name of a cluster: use at most 100 letters, digits, '_' and '-'"


@dataclass(frozen=True, slots=True)
class MirrorName:
    """The names of the source and of the target cluster, from which all other names are made."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"

    @property
    def group_id(self) -> str:
        """The group in the target cluster whose offsets are the mirror's progress in the source cluster."""
        return GROUP_PREFIX + self.source

    @property
    def claim_transactional_id(self) -> str:
        """The transactional id of a run that claims the mirror."""
        return f"{self.group_id}/claim"

    def transactional_id(self, bucket: int) -> str:
        """Return the transactional id of the task that copies the partitions of one bucket."""
        return f"{self.group_id}/{bucket}"

    @property
    def syncs_topic(self) -> str:
        """MirrorMaker 2's topic of offset syncs, as it is named where it is kept in the target cluster."""
        return f"mm2-offset-syncs.{self.source}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """MirrorMaker 2's topic of checkpoints."""
        return f"{self.source}.checkpoints.internal"

    @property
    def state_topic(self) -> str:
        """The compacted topic with the state of each mirrored topic, which `tailrace mirror status` prints."""
        return f"{self.group_id}.internal"

    @property
    def remote_heartbeats_topic(self) -> str:
        """The copy of the source's heartbeats, by which MirrorMaker 2's clients find upstream clusters."""
        return f"{self.source}.{HEARTBEATS_TOPIC}"
