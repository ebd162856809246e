"""The interface of group members, which both protocols implement.

A member runs on the event loop and decides what changes. It changes nothing itself: partitions that are
assigned, revoked or lost are a step for the reader, which takes it when the user is done with all records.
So a partition is given up only after its last record was processed.
"""

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import Identity
from tailrace.client.group.subscription import GroupSubscription
from tailrace.client.topic_partition import TopicPartition


class StepKind(Enum):
    """Kinds of changes of an assignment."""

    ASSIGN = "assigned"
    REVOKE = "revoked"
    LOSE = "lost"  # other members may have them already


class Step:
    """A change of the assignment that waits for the reader."""

    __slots__ = ("done", "is_started", "kind", "partitions")

    def __init__(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        self.kind = kind
        self.partitions = sorted(partitions)
        self.is_started = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Host(Protocol):
    """The environment of a member."""

    settings: ConsumerSettings
    cluster: Cluster
    coordinator: Coordinator
    subscription: GroupSubscription
    owned: set[TopicPartition]

    async def change(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        """Wait until the reader has taken a step."""


class GroupMember(Protocol):
    """One membership, from joining to leaving."""

    @property
    def identity(self) -> Identity:
        """The identity for commits at the moment."""

    async def run(self) -> None:
        """Join and stay a member; never returns, and raises the error that makes membership impossible."""

    async def leave(self) -> None:
        """Leave at the coordinator, if it answers quickly."""

    def on_subscription(self) -> None:
        """Handle a changed subscription."""

    def on_fenced(self, identity: Identity) -> bool:
        """Handle a commit that was rejected for an identity; returns whether that identity is current."""
