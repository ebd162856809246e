"""A member of a consumer group of the new protocol (KIP-848), as an immutable value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from runnel.machines.group.assignor import Assignment

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The epochs by which a member says that it joins, leaves, or leaves but keeps its place (static members only)."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch at which the member got it: older commits for it are a zombie's."""

NO_PARTITIONS: PartitionEpochs = {}


class MemberState(IntEnum):
    """How far a member is on its way to its target; the numbers stand in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """The state of this number; UNKNOWN for one that only a later version has."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class SupportedProtocol:
    """A way of dividing the work that a member of the classic protocol offers, with its subscription in bytes."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What is known of a member only because it speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """Who a member is, what it wants to read, and what it has."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)
    classic: ClassicMember | None = None

    def at(
        self, epoch: int, state: MemberState, assigned: PartitionEpochs, pending: PartitionEpochs = NO_PARTITIONS
    ) -> "ConsumerMember":
        """The member after a step of reconciliation; the epoch it leaves is remembered for a lost reply."""
        return self.placed(epoch, self.epoch, state, assigned, pending)

    def placed(
        self,
        epoch: int,
        previous_epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
    ) -> "ConsumerMember":
        """The member elsewhere on its way; written out, because `replace` costs a busy group several times as much."""
        return ConsumerMember(
            self.member_id,
            epoch,
            previous_epoch,
            state,
            self.instance_id,
            self.rack_id,
            self.rebalance_timeout_ms,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.server_assignor,
            assigned,
            pending_revocation,
            self.classic,
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


def partitions_of(assigned: PartitionEpochs) -> Assignment:
    """The partitions without their epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}
