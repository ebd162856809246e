"""How far the next micro-batch of a stream goes.

Without limits it goes to the end of every partition. `maxOffsetsPerTrigger` shares a number of
offsets out over the partitions by how much each has. `minOffsetsPerTrigger` waits until there is
enough, but not longer than `maxTriggerDelay` after the last batch, and not when the stream is to
end with what is there now.
"""

from dataclasses import dataclass

from runnel.spark.option import AdmissionOptions
from runnel.spark.position import Offsets


@dataclass(slots=True)
class Admission:
    """Decides for one stream; it remembers when it last let a batch go."""

    options: AdmissionOptions
    last_batch_ms: float | None = None

    def admit(
        self, start: Offsets, latest: Offsets, *, offsets_max: int | None, may_wait: bool, now_ms: float
    ) -> Offsets | None:
        """Where the batch ends; None to wait. New partitions stand in `start` with their first offset."""
        if may_wait and self._should_wait(start, latest, now_ms):
            return None
        self.last_batch_ms = now_ms
        return latest if offsets_max is None else share_out(offsets_max, start, latest)

    def _should_wait(self, start: Offsets, latest: Offsets, now_ms: float) -> bool:
        if self.options.offsets_min is None or self.last_batch_ms is None:
            return False
        if now_ms - self.last_batch_ms >= self.options.delay_max_ms:
            return False
        new = sum(offset - start.get(partition, 0) for partition, offset in latest.items())
        return new < self.options.offsets_min


def share_out(offsets_max: int, start: Offsets, latest: Offsets) -> Offsets:
    """The ends of a batch of about so many offsets, shared out by how much each partition has.

    A partition with anything new gets at least one, so that a small one is not starved by large
    ones; the batch may then be a little larger. One that went backwards is left at its end, for the
    planning to notice.
    """
    sizes = {partition: max(0, end - start.get(partition, end)) for partition, end in latest.items()}
    total = sum(sizes.values())
    if total == 0:
        return latest
    return {
        partition: end
        if sizes[partition] == 0
        else min(end, start[partition] + max(1, offsets_max * sizes[partition] // total))
        for partition, end in latest.items()
    }
