"""Sequence numbers, by which a broker knows a batch that it has already (KIP-98, KIP-360, KIP-679).

Every batch of a partition gets the number after the last one of the batch before. A broker takes
only the next number, so a batch that is sent again is either taken once or known as a duplicate.

Where a batch is given up, nobody may know whether it is in the log, and the numbers after it may
have a gap before them. New batches then wait until those under way have been answered. If one that
came later was taken, the one given up is in the log too and nothing is missing. Otherwise the
partition starts over at number 0 with a higher epoch, and what still waits is numbered anew.
"""

from typing import NamedTuple

from runnel.base.invariant import invariant
from runnel.client.batch import Batch
from runnel.client.row import ProducerStamp
from runnel.records.batch import NO_SEQUENCE, increment_sequence

EPOCH_MAX = 2**15 - 1


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY = Identity(-1, -1)


class PartitionSequence:
    """The numbers of one partition. Batches are `unsettled` from their numbering to their end, in order."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.unsettled: list[Batch] = []
        self.is_in_doubt = False
        self.must_restart = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE

    def may_take(self, batch: Batch) -> bool:
        """Whether the batch may be sent now: of those that were sent before, only the first one left.

        A broker that has not heard of a producer takes any number for its first. So the first batch travels
        alone: were it refused for now, one that was sent behind it would be written before it.
        """
        if batch.has_sequence:
            return not self.must_restart and self.unsettled[0] is batch
        if self.unsettled and self._last_acknowledged == NO_SEQUENCE:
            return False
        return not self.must_restart and not self.is_in_doubt

    def assign(self, batch: Batch, identity: Identity) -> None:
        """Number a batch that has no number yet; a newer identity is taken on when nothing is under way."""
        if batch.has_sequence:
            return
        if self.identity is None or (not self.unsettled and self.identity != identity):
            self.restart(identity)
        self._number(batch)
        self.unsettled.append(batch)

    def _number(self, batch: Batch) -> None:
        identity = self.identity or NO_IDENTITY
        invariant(identity is not NO_IDENTITY, "a batch is numbered for a producer")
        batch.stamp = ProducerStamp(identity.producer_id, identity.producer_epoch, self._next)
        self._next = increment_sequence(self._next, batch.record_count)

    def acknowledge(self, batch: Batch) -> None:
        """The broker has it, and everything before it."""
        if batch.has_sequence:
            self.unsettled.remove(batch)
            self._last_acknowledged = increment_sequence(batch.stamp.base_sequence, batch.record_count - 1)

    def give_up(self, batch: Batch, *, is_refused: bool) -> None:
        """It will not be sent again. Unless the broker refused it, it may be in the log all the same."""
        if not batch.has_sequence:
            return
        is_last = self.unsettled[-1] is batch
        self.unsettled.remove(batch)
        if is_refused and is_last and not self.is_in_doubt:
            self._next = batch.stamp.base_sequence  # nobody has used the numbers after it
        else:
            self.is_in_doubt = True

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Its parts, which have its numbers, stand in its place."""
        if batch.has_sequence:
            index = self.unsettled.index(batch)
            self.unsettled[index : index + 1] = parts

    def refuse(self, batch: Batch) -> None:
        """The broker says that this is not the number it waits for.

        Where a batch before it is still to be sent again, that is why, and nothing is wrong.
        """
        if self.is_in_doubt or self.unsettled[0] is batch:
            self.must_restart = True

    def settle_doubt(self) -> bool:
        """Whether it is time to start over; call it when nothing of the partition is under way."""
        if self.must_restart:
            return True
        if not self.is_in_doubt or self.unsettled:
            return False
        self.is_in_doubt = increment_sequence(self._last_acknowledged, 1) != self._next
        return self.is_in_doubt

    def restart(self, identity: Identity) -> None:
        """Begin at 0 with this identity, and number what waits to be sent again anew."""
        self.identity = identity
        self.is_in_doubt = self.must_restart = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        for batch in self.unsettled:
            self._number(batch)
