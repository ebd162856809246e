"""How far a stream is behind its topics.

Spark gives sources in Python no place for numbers of their own, but it reports the position at
which a batch ended and the latest one that the source knew. The rest is subtraction:

    behind = offsets_behind_latest(query.lastProgress["sources"][0])
    print(behind.total, behind.by_partition)
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runnel.spark.position import Offsets, from_json


@dataclass(frozen=True, slots=True)
class OffsetsBehind:
    """The offsets that were there and not read yet, by partition."""

    by_partition: Offsets

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())

    @property
    def metrics(self) -> dict[str, str]:
        """The three numbers that Spark's own Kafka source reports, by its names."""
        counts = list(self.by_partition.values())
        if not counts:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(counts)),
            "maxOffsetsBehindLatest": str(max(counts)),
            "avgOffsetsBehindLatest": str(sum(counts) / len(counts)),
        }


def offsets_behind_latest(source: Any) -> OffsetsBehind:
    """How far one source of a stream is behind, from its part of a progress report, as an object or as a dict."""
    end, latest = _position(source, "endOffset"), _position(source, "latestOffset")
    return OffsetsBehind({partition: max(0, offset - end.get(partition, 0)) for partition, offset in latest.items()})


def _position(source: Any, name: str) -> Offsets:
    found = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    if isinstance(found, str):
        found = json.loads(found)
    return from_json(found) if isinstance(found, Mapping) else {}
