"""The parameters of one seed's log care: topics with tiny segments, and brokers that clean them often."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tailrace.config.replication import RACK_AWARE_SELECTOR

COMPACTED = "compacted"
RETAINED = "retained"
LONG_MS = 7 * 24 * 3_600_000
"""So long that even clocks that are hours off do not reach it."""

_RACKS = ("a", "b")


@dataclass(frozen=True, slots=True)
class CareShape:
    """What one seed draws."""

    compacted: Mapping[str, str]  # the configs of a compacted topic
    retained: Mapping[str, str]  # the configs of a topic with retention
    partition_count: int  # of each topic
    options: Mapping[str, str]  # of every broker
    has_racks: bool
    pause_s: float  # of the writer, on average
    deletes_records: bool
    policies_every_s: float  # between changes of a topic's cleanup.policy; 0: they stay

    def broker_options(self, broker_id: int) -> dict[str, str]:
        """Return the options of one broker."""
        rack = {"broker.rack": _RACKS[broker_id % len(_RACKS)]} if self.has_racks else {}
        return {**self.options, **rack}

    @property
    def compacted_topics(self) -> frozenset[str]:
        """The topics that are compacted, always or at times, so that their replicas differ."""
        return frozenset((COMPACTED, RETAINED) if self.policies_every_s else (COMPACTED,))

    def rack_of(self, random: Random) -> str:
        """Return the rack of a reader; empty for none."""
        return random.choice(_RACKS) if self.has_racks else ""


def choose_care(seed: int, share: float) -> CareShape | None:
    """Return the log care of a seed; None for the seeds without."""
    random = Random(f"care {seed}")
    if random.random() >= share:
        return None
    segments = {
        "min.insync.replicas": "2",
        "internal.segment.bytes": str(random.choice([400, 1_000, 3_000])),
        "segment.ms": str(random.choice([500, 2_000])),
        "index.interval.bytes": str(random.choice([0, 200, 4_096])),
        "file.delete.delay.ms": str(random.choice([0, 1_000])),
    }
    compacted = {
        **segments,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(random.choice([0, 500, LONG_MS, LONG_MS])),
    }
    bound = random.choice(["ms", "bytes", "both", "none"])
    retained = {
        **segments,
        "retention.ms": str(random.choice([500, 2_000])) if bound in ("ms", "both") else "-1",
        "retention.bytes": str(random.choice([2_000, 8_000])) if bound in ("bytes", "both") else "-1",
    }
    policies = Random(f"policies {seed}")
    policies_every_s = policies.choice([0.0, 0.0, 0.3, 1.0])
    if policies_every_s:
        compacted["retention.ms"] = policies.choice(["500", "2000", "-1"])
        compacted["retention.bytes"] = policies.choice(["2000", "8000", "-1"])
        retained["min.cleanable.dirty.ratio"] = compacted["min.cleanable.dirty.ratio"]
    has_racks = random.random() < 0.5
    options = {
        "log.retention.check.interval.ms": "200",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.dedupe.buffer.size": str(2**20),
        "log.flush.offset.checkpoint.interval.ms": "1000",
        **({"replica.selector.class": RACK_AWARE_SELECTOR} if has_racks else {}),
    }
    return CareShape(
        compacted=compacted,
        retained=retained,
        partition_count=random.choice([1, 1, 2]),
        options=options,
        has_racks=has_racks,
        pause_s=random.choice([0.05, 0.1]),
        deletes_records=bound == "none" or random.random() < 0.5,
        policies_every_s=policies_every_s,
    )
