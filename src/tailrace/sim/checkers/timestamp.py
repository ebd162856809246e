"""Checks of lookups by time: the answer is the first record that is recent enough, or the newest."""

from collections.abc import Iterator

from tailrace.sim.checkers.care import EARLIEST, CaredLog, KeyedRecord, cared_logs
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import History, Operation

_LATEST = -1
_MAX_TIMESTAMP = -3


def find_wrong_lookups(history: History) -> Iterator[Finding]:
    """Find answers that pass over a record that was there the whole time, or that name a record that does not match.

    A leader that was replaced without knowing may know less than was acknowledged, so only answers after all faults
    were healed must know everything.
    """
    for log in cared_logs(history):
        times = {record.offset: record.timestamp_ms for record in log.records}
        for lookup in log.lookups:
            if not lookup.is_ok:
                continue
            text = _wrong_answer(lookup, times) or _passed_over(log, lookup)
            if text is not None:
                asked, offset = lookup.asked["timestamp_ms"], lookup.told["offset"]
                yield Finding(
                    "wrong-lookup", log.name, f"{asked} is answered with offset {offset}, {text}", (lookup.begun,)
                )


def _wrong_answer(lookup: Operation, times: dict[int, int]) -> str | None:
    """Return why the record of the answer does not match, if so."""
    asked, offset, found_ms = lookup.asked["timestamp_ms"], lookup.told["offset"], lookup.told["found_ms"]
    if offset < 0 or asked in (_LATEST, EARLIEST):
        return None
    if found_ms != times.get(offset, found_ms):
        return f"whose timestamp is {times[offset]}, not {found_ms}"
    return f"which is older: {found_ms}" if asked >= 0 and found_ms < asked else None


def _passed_over(log: CaredLog, lookup: Operation) -> str | None:
    """Return which record should have been the answer, if there is one."""
    for record in _there(log, lookup):
        if _is_better(record, lookup):
            return f"but offset {record.offset} has timestamp {record.timestamp_ms}"
    return None


def _is_better(record: KeyedRecord, lookup: Operation) -> bool:
    asked, offset, found_ms = lookup.asked["timestamp_ms"], lookup.told["offset"], lookup.told["found_ms"]
    is_final = lookup.asked["final"]
    if asked == _LATEST:
        return bool(is_final and record.offset >= offset)
    if asked == _MAX_TIMESTAMP:
        return bool(is_final and (-found_ms, offset) > (-record.timestamp_ms, record.offset))
    if asked < 0:
        return False  # the start of the log, which other checkers judge
    if offset < 0:
        return bool(is_final and record.timestamp_ms >= asked)
    return bool(record.offset < offset and record.timestamp_ms >= asked)


def _there(log: CaredLog, lookup: Operation) -> Iterator[KeyedRecord]:
    """Yield the records that the leader had during the whole lookup, and that were committed before it.

    Each replica compacts its log and applies retention for itself. So it must be a record that no compaction may
    remove, and one above a log start that the leader of the same epoch told later.
    """
    starts = [
        other.told["offset"]
        for other in log.lookups
        if other.is_ok
        and other.asked["timestamp_ms"] == EARLIEST
        and other.asked["leader_epoch"] == lookup.asked["leader_epoch"]
        and lookup.ended_before(other)
    ]
    for record in log.records:
        if starts and record.offset >= max(starts) and not log.may_be_compacted(record, lookup):
            put = log.put_of[record]
            if (put.is_ok and put.ended_before(lookup)) or _was_scanned(log, record, lookup):
                yield record


def _was_scanned(log: CaredLog, record: KeyedRecord, lookup: Operation) -> bool:
    return any(record.offset in scan.offsets for scan in log.scans if scan.operation.ended_before(lookup))
