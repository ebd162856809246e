"""What the flows have done so far, from the progress that Spark reports after each batch. Pure.

Spark names the same things in every report; the ones used here are read in `FlowTally.add`. Rows that
went out are counted by a metric that the runner adds to the query, because not every sink counts.
"""

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from runnel.client.topic_partition import TopicPartition
from runnel.spark.position import Offsets, from_json
from runnel.spark.progress import offsets_behind_latest

OUT_METRIC = "runnel_out"
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
    cause: str = ""  # why the flow failed, or is started again
    restart_at_s: float | None = None
    _recent: deque[tuple[float, int, int]] = field(default_factory=deque)

    def add(self, progress: Mapping[str, Any], now_s: float) -> None:
        """Take in one report."""
        rows_in, rows_out = int(progress.get("numInputRows") or 0), _rows_out(progress)
        self.rows_in += rows_in
        self.rows_out += rows_out
        durations = progress.get("durationMs") or {}
        if "addBatch" in durations:  # reports of idle times tell nothing of a batch
            self.batch_count += 1
            self.batch_ms = int(durations.get("triggerExecution", 0))
        operators = progress.get("stateOperators") or ()
        if operators:
            self.state_rows = sum(int(operator.get("numRowsTotal") or 0) for operator in operators)
        for operator in operators:
            self.rows_late += int(operator.get("numRowsDroppedByWatermark") or 0)
            metrics = operator.get("customMetrics") or {}
            self.rows_duplicate += int(metrics.get("numDroppedDuplicateRows") or 0)
        self._place(progress.get("sources") or ())
        self._recent.append((now_s, rows_in, rows_out))
        while self._recent[0][0] < now_s - RATE_WINDOW_S:
            self._recent.popleft()

    def work(self) -> None:
        """The flow has its sources: Spark reports on its newest run."""
        if self.state == "starting":
            self.state = "running"

    def rates(self, now_s: float) -> tuple[float, float]:
        """Rows a second in and out, over the last seconds."""
        recent = [entry for entry in self._recent if entry[0] >= now_s - RATE_WINDOW_S]
        if not recent:
            return 0.0, 0.0
        # What the first report counts came before it, so the time of a batch belongs to the span.
        span_s = max(1.0, now_s - recent[0][0] + self.batch_ms / 1000)
        span_s = min(span_s, RATE_WINDOW_S)
        return sum(entry[1] for entry in recent) / span_s, sum(entry[2] for entry in recent) / span_s

    def copy(self) -> Self:
        """The numbers as they are now; reports change them in another thread."""
        return replace(self, behind=dict(self.behind), position=dict(self.position), _recent=deque(self._recent))

    def shown_state(self, now_s: float) -> str:
        """The state in words; that of a flow that waits says for how long, and why."""
        if self.state != "restarting" or self.restart_at_s is None:
            return self.state
        return f"restarting in {max(0, math.ceil(self.restart_at_s - now_s))} s: {self.cause}"

    @property
    def lag(self) -> int:
        """How many offsets are there and not read yet."""
        return sum(self.behind.values())

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything before these offsets has been read."""
        return all(self.position.get(partition, 0) >= end for partition, end in ends.items())

    def _place(self, sources: Any) -> None:
        """Two sources may read the same topic, and the slower one says how far the flow is."""
        position: Offsets = {}
        behind: Offsets = {}
        for source in sources:
            for partition, offset in _position(source).items():
                position[partition] = min(offset, position.get(partition, offset))
            for partition, count in offsets_behind_latest(source).by_partition.items():
                behind[partition] = max(count, behind.get(partition, 0))
        self.position.update(position)
        self.behind.update(behind)


def _position(source: Mapping[str, Any]) -> Offsets:
    found = source.get("endOffset")
    if isinstance(found, str):
        found = json.loads(found)
    return from_json(found) if isinstance(found, Mapping) else {}


def _rows_out(progress: Mapping[str, Any]) -> int:
    observed = (progress.get("observedMetrics") or {}).get(OUT_METRIC) or {}
    if OUT_ROWS in observed:
        return int(observed[OUT_ROWS])
    written = (progress.get("sink") or {}).get("numOutputRows")
    return max(0, int(written)) if written is not None and math.isfinite(written) else 0
