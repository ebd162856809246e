"""The user's callbacks for rebalances."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from tailrace.client.group.member import Step, StepKind
from tailrace.client.topic_partition import TopicPartition

RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None] | None]


class RebalanceListener(NamedTuple):
    """Callbacks for assigned, revoked and lost partitions, which the reader calls between two records."""

    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None

    def call(self, step: Step) -> Awaitable[None] | None:
        """Call the callback of a step; without `on_lost` that is `on_revoked` for lost partitions, as in Kafka."""
        callback = {
            StepKind.ASSIGN: self.on_assigned,
            StepKind.REVOKE: self.on_revoked,
            StepKind.LOSE: self.on_lost or self.on_revoked,
        }[step.kind]
        return callback(list(step.partitions)) if callback is not None and step.partitions else None


NO_LISTENER = RebalanceListener()
