"""The end offsets of the next micro-batch of a stream.

Without limits a batch ends at the log end of every partition. `maxOffsetsPerTrigger` distributes a number of offsets
over the partitions in proportion to their new offsets. `minOffsetsPerTrigger` waits for enough new offsets, but not
longer than `maxTriggerDelay` after the last batch, and not in a stream with `availableNow`.
"""

from dataclasses import dataclass

from tailrace.spark.option import AdmissionOptions
from tailrace.spark.position import Offsets


@dataclass(slots=True)
class Admission:
    """Decides for one stream; keeps the time of its last batch."""

    options: AdmissionOptions
    last_batch_ms: float | None = None

    def admit(
        self, start: Offsets, latest: Offsets, *, offsets_max: int | None, may_wait: bool, now_ms: float
    ) -> Offsets | None:
        """Return the end offsets of the batch; None to wait. `start` has the first offset of new partitions."""
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
    """Return the end offsets of a batch of about `count` offsets, in proportion to the new offsets of each partition.

    A partition with new records gets at least one, so that large partitions do not starve small ones; the batch may
    then be slightly larger. A partition that went backwards stays at its end, where planning detects it.
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
