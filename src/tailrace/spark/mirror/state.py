"""The state of each mirrored topic: lag, rate and last error, as JSON in a compacted topic. Pure."""

import json
from dataclasses import asdict, dataclass

from tailrace.spark.mirror.job import TopicReport


@dataclass(slots=True)
class TopicStatus:
    """The state of one topic of the source."""

    topic: str
    copy: str
    record_count: int = 0
    """The number of records that this run has copied."""
    records_per_s: float = 0.0
    behind: int = 0
    """The number of offsets that are left to copy."""
    lost: int = 0
    """The number of offsets that the source deleted before they were copied."""
    error: str | None = None
    """The last error, until records are copied again."""
    updated_at_ms: int = 0

    def take(self, report: TopicReport, elapsed_s: float, now_ms: int) -> None:
        """Take the report of a round."""
        self.record_count += report.record_count
        self.records_per_s = round(report.record_count / elapsed_s, 1) if elapsed_s > 0 else 0.0
        self.behind = sum(report.behind.values())
        self.lost += report.lost
        self.error = report.error if report.error or report.record_count else self.error
        self.updated_at_ms = now_ms

    def encode(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode_status(value: bytes | None) -> TopicStatus | None:
    """Return the state of a topic; None if the value is not one."""
    try:
        found = json.loads(value or b"")
        return TopicStatus(**{name: found[name] for name in TopicStatus.__dataclass_fields__})
    except (ValueError, TypeError, KeyError):
        return None
