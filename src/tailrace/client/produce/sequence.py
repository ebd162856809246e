"""Sequence numbers, by which a broker recognises a duplicate batch (KIP-98, KIP-360, KIP-679).

Every batch of a partition gets the number after the last record of the batch before. A broker accepts only
the next number, so a retry is either written once or recognised as a duplicate.

A broker remembers only the last five batches of a producer. A retry of an older one is rejected as out of order, as if
a batch before it were missing. So no batch is numbered that would be the sixth from the first one without an outcome,
and no batch overtakes an earlier one (`Queue.must_wait`). If a later batch was acknowledged, an earlier one that may be
written is written, whatever the broker says of its retry.

If a batch is given up after all its attempts were rejected, the next batch gets its number. If an attempt may have been
written, the number is not used again: the broker would take the next batch for a duplicate and acknowledge it without
writing it. It is then unknown whether the batch is in the log, and there may be a gap before the next numbers.
New batches then wait until those in flight are answered. If a later one was accepted, the batch that was given
up is in the log too and there is no gap. Otherwise the partition restarts at number 0 with a higher epoch,
and the batches that wait get new numbers. Those of them that may be written are given up first: what the broker still
has to read from a connection that was lost may contain them, and it recognises them by their old numbers only.
"""

from typing import NamedTuple

from tailrace.base.invariant import invariant
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.row import ProducerStamp
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence

EPOCH_MAX = 2**15 - 1
REMEMBERED_BATCH_COUNT = 5
"""The number of batches of a producer by which a broker recognises duplicates: Kafka's NUM_BATCHES_TO_RETAIN."""


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class PartitionSequence:
    """The numbers of one partition. Batches are `unsettled` in order from their numbering to their outcome."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.unsettled: list[Batch] = []
        self.is_in_doubt = False
        self.must_restart = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        self._acknowledged_order: tuple[int, ...] = ()
        self._window: list[Batch] = []  # the numbered batches from the first unsettled one on, settled ones included

    def may_take(self, batch: Batch) -> bool:
        """Return whether the batch may be sent now: of the retries, only the first that is left.

        A broker that does not know a producer accepts any first number. So the first batch is sent alone: if it
        got a retriable error, one that was sent behind it would be written before it. `Queue.must_wait` does the
        same where a broker may have forgotten the producer.
        """
        if batch.has_sequence:
            return not self.must_restart and self.unsettled[0] is batch
        if self.unsettled and self._last_acknowledged == NO_SEQUENCE:
            return False
        if len(self._window) >= REMEMBERED_BATCH_COUNT:
            return False
        return not self.must_restart and not self.is_in_doubt

    def assign(self, batch: Batch, identity: Identity) -> None:
        """Number a batch that has no number yet; a newer identity is used once no batch is in flight."""
        if batch.has_sequence:
            return
        if self.identity is None or (not self.unsettled and self.identity != identity):
            self.restart(identity)
        self._number(batch)
        self.unsettled.append(batch)
        self._window.append(batch)
        invariant(
            len(self._window) <= REMEMBERED_BATCH_COUNT,
            f"{batch.target}: the broker must remember {len(self._window)} batches, from the first unanswered one on",
        )

    def _number(self, batch: Batch) -> None:
        identity = self.identity or NO_IDENTITY
        invariant(identity is not NO_IDENTITY, "a batch is numbered for a producer")
        batch.stamp = ProducerStamp(identity.producer_id, identity.producer_epoch, self._next)
        self._next = increment_sequence(self._next, batch.record_count)

    def acknowledge(self, batch: Batch) -> None:
        """Note that the broker has the batch and all before it."""
        if not batch.has_sequence:
            return
        self._settle(batch)
        if batch.order > self._acknowledged_order:
            self._acknowledged_order = batch.order
            self._last_acknowledged = increment_sequence(batch.stamp.base_sequence, batch.record_count - 1)

    def is_written(self, batch: Batch) -> bool:
        """Return whether an unsettled batch is in the log, because a later one was accepted."""
        return batch.is_in_doubt and batch.order < self._acknowledged_order

    def give_up(self, batch: Batch) -> None:
        """Note that a batch is not sent again. Its number is used again if no attempt can have been written."""
        if not batch.has_sequence:
            return
        is_last = self._window[-1] is batch
        self._settle(batch)
        if is_last and not batch.may_be_written and not self.is_in_doubt:
            self._next = batch.stamp.base_sequence
            self._window = [item for item in self._window if item is not batch]
        else:
            self.is_in_doubt = True

    def _settle(self, batch: Batch) -> None:
        self.unsettled.remove(batch)
        first = self.unsettled[0] if self.unsettled else None
        while self._window and self._window[0] is not first:
            del self._window[0]

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Replace a batch by its parts, which have its numbers."""
        if batch.has_sequence:
            index = self.unsettled.index(batch)
            self.unsettled[index : index + 1] = parts
            index = self._window.index(batch)
            self._window[index : index + 1] = parts

    def refuse(self, batch: Batch) -> None:
        """Handle a batch that the broker rejects as out of order.

        If a batch before it is still to be sent again, that is the reason, and nothing is wrong.
        """
        if self.is_in_doubt or self.unsettled[0] is batch:
            self.must_restart = True

    def settle_doubt(self) -> bool:
        """Return whether to restart the numbers; call it when no batch of the partition is in flight."""
        if self.must_restart:
            return True
        if not self.is_in_doubt or self.unsettled:
            return False
        self.is_in_doubt = increment_sequence(self._last_acknowledged, 1) != self._next
        return self.is_in_doubt

    def restart(self, identity: Identity) -> None:
        """Restart at 0 with this identity, and renumber the batches that wait for a retry."""
        invariant(
            not any(batch.is_in_doubt for batch in self.unsettled),
            "a batch that may be written gets no other number, under which it would be written again",
        )
        self.identity = identity
        self.is_in_doubt = self.must_restart = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        self._acknowledged_order = ()
        self._window = list(self.unsettled)
        for batch in self.unsettled:
            self._number(batch)
