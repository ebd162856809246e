"""The role of one replica of a partition, as the cluster image gives it: leader or follower, in which epoch, with whom.

A role is a value. Each change of the image makes another one from it, and the rules about the order of roles are
checked there. Leader epochs never go back; a leader is in its own ISR; a replica that was deleted never serves again.
"""

from dataclasses import dataclass, replace
from typing import Self

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import ACKS_ALL, NO_BROKER, NO_EPOCH
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a replica in one state of its partition; before the image names a leader, a follower of none."""

    leader_id: int = NO_BROKER
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    is_leader: bool = False
    is_replicated: bool = False
    is_retired: bool = False
    """Whether the topic was deleted, or the replica was moved to another broker."""
    min_isr: int = 1
    epoch_start_offset: int = 0
    """The log end offset at the moment when this broker became leader."""

    def lead(self, record: PartitionRecord, replica_count: int, min_isr: int, log_end_offset: int) -> Self:
        """Return the role of a leader in this state of the partition."""
        self._check_order(record)
        invariant(not self.is_retired, f"{record.topic}-{record.partition} leads after its deletion")
        invariant(record.leader in record.isr, f"{record.topic}-{record.partition} leads outside its ISR {record.isr}")
        is_elected = not self.is_leader or record.leader_epoch != self.leader_epoch
        return replace(
            self,
            leader_id=record.leader,
            leader_epoch=record.leader_epoch,
            isr=record.isr,
            is_leader=True,
            is_replicated=replica_count > 1,
            min_isr=min(min_isr, replica_count),
            epoch_start_offset=log_end_offset if is_elected else self.epoch_start_offset,
        )

    def follow(self, record: PartitionRecord) -> Self:
        """Return the role of a follower in this state of the partition, which may have no leader."""
        self._check_order(record)
        return replace(
            self,
            leader_id=record.leader,
            leader_epoch=record.leader_epoch,
            isr=record.isr,
            is_leader=False,
            is_replicated=True,
        )

    def retire(self) -> Self:
        """Return the role of a replica that is deleted."""
        return replace(self, is_leader=False, is_retired=True)

    def is_same_term(self, other: "Role") -> bool:
        """Whether both lead, or both follow, in the same leader epoch."""
        return self.is_leader == other.is_leader and self.leader_epoch == other.leader_epoch

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client whose metadata is older or newer than this role (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"the request has leader epoch {current_leader_epoch}, which is older than {self.leader_epoch}",
            )
        raise ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"the request has leader epoch {current_leader_epoch}, but this broker knows only {self.leader_epoch}",
        )

    def check_in_sync(self, acks: int) -> None:
        """Reject records that need more replicas in sync than there are."""
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            message = f"{len(self.isr)} replica(s) are in sync, but min.insync.replicas is {self.min_isr}"
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, message)

    def _check_order(self, record: PartitionRecord) -> None:
        invariant(
            record.leader_epoch >= self.leader_epoch,
            f"{record.topic}-{record.partition}: leader epoch {record.leader_epoch} after {self.leader_epoch}",
        )
