"""Histories of logs that are shortened, by hand: one line of Python for an operation."""

from typing import Any, Self

from tests.unit.sim.event import Story

KEPT = "kept-0"
COMPACTED = "compacted-0"
WEEK_MS = 7 * 24 * 3_600_000


class CareStory(Story):
    """Puts, scans and lookups of a log. The timestamp of a record is 100 times its number."""

    partition = COMPACTED
    policy = "compact"

    def __init__(self, **configs: int) -> None:
        super().__init__()
        named = {name.replace("_", "."): str(value) for name, value in configs.items()}
        topic = self.partition.rpartition("-")[0]
        self.recorder.invoke("-", "topic", topic=topic, configs={"cleanup.policy": self.policy, **named}).ok()

    def put(self, number: int, key: str, *, is_tombstone: bool = False, outcome: str = "ok") -> Self:
        """Write a record, whose number is its offset, too."""
        asked = {"key": key, "value": None if is_tombstone else f"v{number}", "timestamp_ms": 100 * number}
        operation = self.recorder.invoke("writer", "put", partition=self.partition, **asked)
        if outcome == "ok":
            operation.ok(offset=number)
        elif outcome == "info":
            operation.unknown("time-out")
        else:
            operation.fail("refused")
        return self

    def scan(self, *records: Any, start: int = 0, end: int = 10, is_final: bool = False, stalled: bool = False) -> Self:
        """Read records, given as (number, key), (number, key, value) or (number, key, value, timestamp)."""
        told = [_record(*record) for record in records]
        operation = self.recorder.invoke("scanner", "scan", partition=self.partition, offset=start, final=is_final)
        operation.ok(end=end, records=told, stalled=stalled)
        return self

    def finish(self, *records: Any, **options: Any) -> Self:
        """Read the records twice, after everything else."""
        return self.scan(*records, is_final=True, **options).scan(*records, is_final=True, **options)

    def lookup(
        self, timestamp_ms: int, offset: int, found_ms: int = -1, *, epoch: int = 0, is_final: bool = False
    ) -> Self:
        asked = {"timestamp_ms": timestamp_ms, "leader_epoch": epoch, "final": is_final}
        self.recorder.invoke("clerk", "lookup", partition=self.partition, **asked).ok(offset=offset, found_ms=found_ms)
        return self

    def start(self, offset: int, **options: Any) -> Self:
        """Ask where the log starts."""
        return self.lookup(-2, offset, **options)

    def delete(self, offset: int, told: int | None = None) -> Self:
        operation = self.recorder.invoke("clerk", "delete-records", partition=self.partition, offset=offset)
        operation.ok(low_watermark=offset if told is None else told)
        return self

    def compact(self, policy: str = "compact") -> Self:
        """Have a broker begin to compact."""
        self.recorder.invoke("broker-1", "compact", partition=self.partition, policy=policy).ok()
        return self

    def reform(self, policy: str) -> Self:
        """Change the policy of the topic, without an answer."""
        topic = self.partition.rpartition("-")[0]
        self.recorder.invoke("reformer", "alter", topic=topic, configs={"cleanup.policy": policy}).unknown("time-out")
        return self

    def retain(
        self,
        before: int,
        offset: int,
        *,
        clock_ms: int = 1_000_000,
        left_bytes: int = 0,
        policy: str | None = None,
    ) -> Self:
        """Have a broker's retention move the log start."""
        told: dict[str, object] = {"before": before, "offset": offset, "clock_ms": clock_ms, "left_bytes": left_bytes}
        told |= {} if policy is None else {"policy": policy}
        self.recorder.invoke("broker-1", "expire", partition=self.partition, **told).ok()
        return self


class KeptStory(CareStory):
    """The same of a log that is not compacted."""

    partition = KEPT
    policy = "delete"


def _record(number: int, key: str, value: str | None = "", timestamp_ms: int | None = None) -> list[object]:
    return [number, key, f"v{number}" if value == "" else value, 100 * number if timestamp_ms is None else timestamp_ms]
