"""What every kind of group has in common, for those who list, commit, expire and delete."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from runnel.machines.log_record import Record
from runnel.protocol.primitive import ZERO_UUID

NO_OFFSET = -1

CheckPartition = Callable[[str, UUID, int], None]
"""Raises ApiError if the member may not commit for this topic (by name and id) and partition."""


class GroupType(StrEnum):
    """The kinds of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request, and in which version of its API."""

    client_id: str
    client_host: str
    version: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group reads in a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # named by clients older than KIP-211 alone
    topic_id: UUID = ZERO_UUID
    record_offset: int = NO_OFFSET  # where its record stands in `__consumer_offsets`


class Group(Protocol):
    """A group of any kind."""

    group_id: str

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_name(self) -> str:
        """The protocol type as ListGroups shows it: `consumer`, `connect`, or nothing for a simple group."""
        ...

    @property
    def state_name(self) -> str:
        """The state in Kafka's words."""
        ...

    @property
    def is_empty(self) -> bool: ...

    @property
    def member_count(self) -> int: ...

    @property
    def may_expire(self) -> bool:
        """Whether nothing but offsets keeps the group."""
        ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, *, in_transaction: bool = False
    ) -> CheckPartition | None:
        """Raise ApiError if this member may not commit; what is left to check for each partition."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError if this member may not read offsets."""
        ...

    def check_offset_delete(self) -> None:
        """Raise ApiError if offsets may not be deleted now."""
        ...

    def check_delete(self) -> None:
        """Raise ApiError if the group may not be deleted now."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        """Since when nobody needs this offset; None while somebody may."""
        ...

    def tombstones(self) -> list[Record]:
        """What removes the group from the log, without its offsets."""
        ...
