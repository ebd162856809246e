"""What a log with transactions must say, worked out from a plain list of its batches."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Written(NamedTuple):
    """A batch of a producer, or the marker of an end."""

    base_offset: int
    record_count: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    commits: bool | None = None  # None for records
    coordinator_epoch: int = -1

    @property
    def end(self) -> int:
        return self.base_offset + self.record_count


@dataclass
class Producer:
    """What is known of a producer after its last batch."""

    epoch: int = -1
    next_sequence: int = 0
    open_offset: int = -1
    coordinator_epoch: int = -1
    batches: list[Written] = field(default_factory=list)


class Ended(NamedTuple):
    """A transaction with its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    commits: bool


class Oracle:
    """The producers and transactions of a list of batches, in their order."""

    def __init__(self, batches: Iterable[Written]) -> None:
        self.producers: dict[int, Producer] = {}
        self.ended: list[Ended] = []
        self.batches = list(batches)
        for batch in self.batches:
            producer = self.producers.setdefault(batch.producer_id, Producer())
            if batch.epoch != producer.epoch:
                producer.epoch, producer.next_sequence, producer.batches = batch.epoch, 0, []
            if batch.commits is not None:
                producer.coordinator_epoch = batch.coordinator_epoch
                if producer.open_offset >= 0:
                    ended = Ended(batch.producer_id, producer.open_offset, batch.base_offset, batch.commits)
                    self.ended.append(ended)
                producer.open_offset = -1
                continue
            producer.next_sequence = batch.sequence + batch.record_count
            producer.batches = [*producer.batches, batch][-5:]
            if batch.is_transactional and producer.open_offset < 0:
                producer.open_offset = batch.base_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [producer.open_offset for producer in self.producers.values() if producer.open_offset >= 0]
        unstable += [ended.first_offset for ended in self.ended if ended.marker_offset >= high_watermark]
        return min([*unstable, high_watermark])

    def committed(self, from_offset: int, up_to_offset: int) -> list[int]:
        """The offsets that a reader of committed records is to see."""
        return [
            offset
            for batch in self.batches
            if batch.commits is None and not self._is_aborted(batch)
            for offset in range(batch.base_offset, batch.end)
            if from_offset <= offset < up_to_offset
        ]

    def _is_aborted(self, batch: Written) -> bool:
        return batch.is_transactional and any(
            not ended.commits
            and ended.producer_id == batch.producer_id
            and ended.first_offset <= batch.base_offset < ended.marker_offset
            for ended in self.ended
        )
