"""What a member of a group is to the rest of the client, whichever protocol it speaks.

A member runs on the loop and decides what changes. It changes nothing itself: what is assigned,
revoked or lost is a step for whoever reads, who takes it when it has finished with what it was
given before. So a partition is let go of only behind the last record that was worked on.
"""

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from runnel.client.cluster import Cluster
from runnel.client.consumer_setting import ConsumerSettings
from runnel.client.group_coordinator import Coordinator
from runnel.client.group_offset import Identity
from runnel.client.group_subscription import GroupSubscription
from runnel.client.topic_partition import TopicPartition


class StepKind(Enum):
    """What happens to partitions."""

    ASSIGN = "assigned"
    REVOKE = "revoked"
    LOSE = "lost"  # others may have them already


class Step:
    """A change that waits for whoever reads."""

    __slots__ = ("done", "is_started", "kind", "partitions")

    def __init__(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        self.kind = kind
        self.partitions = sorted(partitions)
        self.is_started = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Host(Protocol):
    """What a member needs around it."""

    settings: ConsumerSettings
    cluster: Cluster
    coordinator: Coordinator
    subscription: GroupSubscription
    owned: set[TopicPartition]

    async def change(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        """Have whoever reads take a step, and wait until that is done."""


class GroupMember(Protocol):
    """One membership, from joining to leaving."""

    @property
    def identity(self) -> Identity:
        """As whom to commit at the moment."""

    async def run(self) -> None:
        """Join and stay; returns never, and raises what makes membership impossible."""

    async def leave(self) -> None:
        """Tell the coordinator, as far as that can be done quickly."""

    def on_subscription(self) -> None:
        """The user has subscribed to something else."""

    def on_fenced(self, identity: Identity) -> bool:
        """A commit as somebody was refused: whether we are still that one, and out of the group."""
