"""Checks of log starts: they only grow, and only by as much as retention and DeleteRecords ask for."""

from collections.abc import Iterator

from tailrace.sim.checkers.care import EARLIEST, CaredLog, cared_logs
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import FAIL, History, Operation


def find_falling_starts(history: History) -> Iterator[Finding]:
    """Find log starts below one that the leader of the same epoch has told, or in the end below a deletion.

    Each replica applies retention for itself, so a new leader may still have what the last one had removed, as in
    Kafka. What was deleted by DeleteRecords is deleted on all replicas. During faults a leader that was replaced may
    not know of it.
    """
    for log in cared_logs(history):
        starts = _starts(log)
        for start in starts:
            known = [
                (each.told["offset"], each)
                for each in starts
                if each.ended_before(start) and each.asked["leader_epoch"] == start.asked["leader_epoch"]
            ]
            if start.asked["final"]:
                known += [(each.told["low_watermark"], each) for each in log.deletions if each.is_ok]
            offset, known_by = max(known, key=lambda pair: pair[0], default=(0, start))
            if start.told["offset"] < offset:
                text = f"the log starts at {start.told['offset']}, after {known_by.kind} has told {offset}"
                yield Finding("start-falls", log.name, text, (known_by.begun, start.begun))


def find_unasked_starts(history: History) -> Iterator[Finding]:
    """Find log starts that neither DeleteRecords nor the retention of any broker explains."""
    for log in cared_logs(history):
        for start in _starts(log):
            reasons = [each.asked["offset"] for each in _begun_before(log.deletions, start)]
            reasons += [each.asked["offset"] for each in _begun_before(log.retentions, start)]
            allowed = max(reasons, default=0)
            if start.told["offset"] > allowed:
                text = f"the log starts at {start.told['offset']}, but no deletion or retention went beyond {allowed}"
                yield Finding("start-unasked", log.name, text, (start.begun,))
                break


def find_greedy_retention(history: History) -> Iterator[Finding]:
    """Find retention that removed records that the broker's clock calls young, and left less than `retention.bytes`.

    Records that compaction may have removed before do not count.
    """
    for log in cared_logs(history):
        limit_ms, limit_bytes = log.limit("retention.ms"), log.limit("retention.bytes")
        for taken in log.retentions:
            before, offset, left_bytes = (taken.asked[name] for name in ("before", "offset", "left_bytes"))
            if before >= offset or (limit_bytes is not None and left_bytes >= limit_bytes):
                continue
            for record in log.records:
                age_ms = taken.asked["clock_ms"] - record.timestamp_ms
                is_young = limit_ms is None or age_ms <= limit_ms
                if before <= record.offset < offset and is_young and not log.may_be_compacted(record, taken):
                    text = (
                        f"{taken.process} removed offset {record.offset}, {age_ms} ms old, and kept {left_bytes} bytes"
                    )
                    yield Finding("greedy-retention", log.name, text, (taken.begun,))
                    break


def _starts(log: CaredLog) -> list[Operation]:
    return [lookup for lookup in log.lookups if lookup.asked["timestamp_ms"] == EARLIEST and lookup.is_ok]


def _begun_before(operations: list[Operation], other: Operation) -> list[Operation]:
    ended = other.ended or other.begun
    return [operation for operation in operations if operation.begun < ended and operation.outcome != FAIL]
