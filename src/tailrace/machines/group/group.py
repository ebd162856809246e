"""The interface of groups of either protocol: to list, describe and delete them, and to commit and expire offsets."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from tailrace.base.sentinel import NO_OFFSET
from tailrace.machines.log_record import Record
from tailrace.protocol.primitive import ZERO_UUID

CheckPartition = Callable[[str, UUID, int], None]
"""Raises ApiError if the member may not commit offsets for this topic (name and id) and partition."""


class GroupType(StrEnum):
    """The types of groups, under the names in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that sent a request, and the API version of the request."""

    client_id: str
    client_host: str
    version: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The offset at which a group continues to read a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # only clients older than KIP-211 send one
    topic_id: UUID = ZERO_UUID
    record_offset: int = NO_OFFSET  # of its record in `__consumer_offsets`


class Group(Protocol):
    """A group of either protocol."""

    group_id: str

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_name(self) -> str:
        """The protocol type in ListGroups: `consumer`, `connect`, or empty for a simple group."""
        ...

    @property
    def state_name(self) -> str:
        """The state, under Kafka's name."""
        ...

    @property
    def is_empty(self) -> bool: ...

    @property
    def member_count(self) -> int: ...

    @property
    def may_expire(self) -> bool:
        """Whether the group may be deleted when its last offset has expired."""
        ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, *, in_transaction: bool = False
    ) -> CheckPartition | None:
        """Raise ApiError if this member may not commit; return the check of each partition, if one is needed."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError if this member may not fetch offsets."""
        ...

    def check_offset_delete(self) -> None:
        """Raise ApiError if offsets may not be deleted now."""
        ...

    def check_delete(self) -> None:
        """Raise ApiError if the group may not be deleted now."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        """Return the time from which the offset is not needed; None while the group may still need it."""
        ...

    def tombstones(self) -> list[Record]:
        """Build the records that remove the group, without its offsets."""
        ...
