"""The user's callbacks for partitions that come and go."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from runnel.client.group_member import Step, StepKind
from runnel.client.topic_partition import TopicPartition

RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None] | None]


class RebalanceListener(NamedTuple):
    """Called by whoever reads, between two records: what is assigned, revoked, or lost to others already."""

    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None

    def call(self, step: Step) -> Awaitable[None] | None:
        """Tell the user of a step; what is lost is revoked for those who see no difference, as in Kafka."""
        callback = {
            StepKind.ASSIGN: self.on_assigned,
            StepKind.REVOKE: self.on_revoked,
            StepKind.LOSE: self.on_lost or self.on_revoked,
        }[step.kind]
        return callback(list(step.partitions)) if callback is not None and step.partitions else None


NO_LISTENER = RebalanceListener()
