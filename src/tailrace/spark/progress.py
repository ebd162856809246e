"""The lag of a stream behind its topics.

Spark has no custom metrics for Python sources, but it reports the end position of a batch and the latest position.
The lag is their difference:

    behind = offsets_behind_latest(query.lastProgress["sources"][0])
    print(behind.total, behind.by_partition)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.spark.position import Offsets, reported_offsets


@dataclass(frozen=True, slots=True)
class OffsetsBehind:
    """The number of unread offsets of each partition."""

    by_partition: Offsets

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())

    @property
    def metrics(self) -> dict[str, str]:
        """The three metrics of Spark's own Kafka source, by their names."""
        counts = list(self.by_partition.values())
        if not counts:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(counts)),
            "maxOffsetsBehindLatest": str(max(counts)),
            "avgOffsetsBehindLatest": str(sum(counts) / len(counts)),
        }


def offsets_behind_latest(source: Any) -> OffsetsBehind:
    """Return the lag of one source, from its part of a progress report, which is an object or a dict."""
    end, latest = _position(source, "endOffset"), _position(source, "latestOffset")
    return OffsetsBehind({partition: max(0, offset - end.get(partition, 0)) for partition, offset in latest.items()})


def _position(source: Any, name: str) -> Offsets:
    found = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    return reported_offsets(found)
