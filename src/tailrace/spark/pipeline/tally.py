"""The numbers of flows, from Spark's progress reports. Pure.

`FlowTally.add` reads the reports. The runner adds a metric for output rows to each query, because not every sink counts
them.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.connector import split
from tailrace.spark.pipeline import expectation
from tailrace.spark.position import Offsets, reported_offsets
from tailrace.spark.progress import offsets_behind_latest

OUT_METRIC = "tailrace_out"
OUT_ROWS = "rows"
RATE_WINDOW_S = 10.0


@dataclass(slots=True)
class FlowTally:
    """The numbers of one flow."""

    name: str
    state: str = "starting"
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    rows_duplicate: int = 0
    batch_count: int = 0
    batch_ms: int = 0
    state_rows: int = 0
    behind: Offsets = field(default_factory=dict)
    position: Offsets = field(default_factory=dict)
    cause: str = ""  # why the flow failed
    restart_at_s: float | None = None
    broken: dict[str, int] = field(default_factory=dict)
    """How many rows broke each expectation."""
    rejected: dict[str, int] = field(default_factory=dict)
    """How many records could not be decoded, and how many rows the sink refused, by reason."""
    _recent: deque[tuple[float, int, int]] = field(default_factory=deque)

    def add(self, progress: Mapping[str, Any], now_s: float) -> None:
        """Add one report."""
        rows_in, rows_out = int(progress.get("numInputRows") or 0), _rows_out(progress)
        self.rows_in += rows_in
        self.rows_out += rows_out
        durations = progress.get("durationMs") or {}
        if "addBatch" in durations:  # a report of an idle query has no batch
            self.batch_count += 1
            self.batch_ms = int(durations.get("triggerExecution", 0))
        operators = progress.get("stateOperators") or ()
        if operators:
            self.state_rows = sum(int(operator.get("numRowsTotal") or 0) for operator in operators)
        for operator in operators:
            self.rows_late += int(operator.get("numRowsDroppedByWatermark") or 0)
            metrics = operator.get("customMetrics") or {}
            self.rows_duplicate += int(metrics.get("numDroppedDuplicateRows") or 0)
        observed = progress.get("observedMetrics") or {}
        _add(self.broken, observed.get(expectation.METRIC) or {})
        for name, counts in observed.items():
            if name.startswith(split.METRIC):
                _add(self.rejected, {reason: count for reason, count in counts.items() if count})
        self._place(progress.get("sources") or ())
        self._recent.append((now_s, rows_in, rows_out))
        while self._recent[0][0] < now_s - RATE_WINDOW_S:
            self._recent.popleft()

    def work(self) -> None:
        """Record that Spark has reported on the current run."""
        if self.state == "starting":
            self.state = "running"

    def rates(self, now_s: float) -> tuple[float, float]:
        """Return rows a second in and out, over the last seconds."""
        recent = [entry for entry in self._recent if entry[0] >= now_s - RATE_WINDOW_S]
        if not recent:
            return 0.0, 0.0
        # The rows of the first report were read before it, so the span includes the time of its batch.
        span_s = max(1.0, now_s - recent[0][0] + self.batch_ms / 1000)
        span_s = min(span_s, RATE_WINDOW_S)
        return sum(entry[1] for entry in recent) / span_s, sum(entry[2] for entry in recent) / span_s

    def copy(self, refused: Mapping[str, int] | None = None) -> Self:
        """Return a copy of the numbers, which another thread changes, with the rows that the sink refused."""
        rejected = dict(self.rejected)
        _add(rejected, refused or {})
        return replace(
            self,
            behind=dict(self.behind),
            position=dict(self.position),
            broken=dict(self.broken),
            rejected=rejected,
            _recent=deque(self._recent),
        )

    def shown_state(self, now_s: float) -> str:
        """Return the state as text, for a waiting flow with the remaining time and the cause."""
        if self.state != "restarting" or self.restart_at_s is None:
            return self.state
        return f"restarting in {max(0, math.ceil(self.restart_at_s - now_s))} s: {self.cause}"

    @property
    def lag(self) -> int:
        """The number of unread offsets."""
        return sum(self.behind.values())

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether all records before these offsets have been read."""
        return all(self.position.get(partition, 0) >= end for partition, end in ends.items())

    def _place(self, sources: Any) -> None:
        """Take the position of each partition; if several sources read it, that of the slowest one."""
        position: Offsets = {}
        behind: Offsets = {}
        for source in sources:
            for partition, offset in reported_offsets(source.get("endOffset")).items():
                position[partition] = min(offset, position.get(partition, offset))
            for partition, count in offsets_behind_latest(source).by_partition.items():
                behind[partition] = max(count, behind.get(partition, 0))
        self.position.update(position)
        self.behind.update(behind)


def _add(counts: dict[str, int], more: Mapping[str, Any]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + int(count or 0)


def _rows_out(progress: Mapping[str, Any]) -> int:
    observed = (progress.get("observedMetrics") or {}).get(OUT_METRIC) or {}
    if OUT_ROWS in observed:
        return int(observed[OUT_ROWS])
    written = (progress.get("sink") or {}).get("numOutputRows")
    return max(0, int(written)) if written is not None and math.isfinite(written) else 0
