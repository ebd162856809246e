"""A member of a consumer group (KIP-848), as an immutable value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from tailrace.machines.group.assignor.assignor import Assignment

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The epochs in heartbeats by which a member joins, leaves, or leaves temporarily (static members only)."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch in which the member got it; commits with an older epoch are rejected."""

NO_PARTITIONS: PartitionEpochs = {}


class MemberState(IntEnum):
    """The progress of a member towards its target, under the numbers in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """Return the state with this number; UNKNOWN if only a later version has it."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class SupportedProtocol:
    """A protocol that a classic member supports, with its subscription as bytes."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """The fields that only a member of the classic protocol has."""

    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """The identity of a member, its subscription and its partitions."""

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
        """Return the member after a step of reconciliation; its previous epoch stays valid if the reply is lost."""
        return self.placed(epoch, self.epoch, state, assigned, pending)

    def placed(
        self,
        epoch: int,
        previous_epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
    ) -> "ConsumerMember":
        """Return the member with another epoch and other partitions; `replace` would take several times as long."""
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
    """Return the partitions without their epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}
