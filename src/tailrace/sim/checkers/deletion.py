"""Checks of DeleteRecords: no more is deleted than requested, deleted records stay away, and the log start only grows.

A request with an unknown outcome may still be carried out late. So a record may be gone as soon as its deletion was
requested, and must be gone once it was acknowledged.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import FAIL, History, Operation


def deleted_end(history: History, partition: str, until: float = inf) -> int:
    """Return the highest offset below which records may be gone, because of requests that began before a line."""
    asked = [each for each in _deletions(history).get(partition, ()) if each.begun < until]
    return max((each.asked["offset"] for each in asked), default=0)


@lru_cache(maxsize=1)  # several checkers use it in turn
def _deletions(history: History) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for operation in history.of("delete-records"):
        if operation.outcome != FAIL:
            found.setdefault(operation.asked["partition"], []).append(operation)
    return found


def find_excessive_deletions(history: History) -> Iterator[Finding]:
    """Find log start offsets that are higher than any deletion that was requested."""
    for look in history.of("log-start"):
        partition = look.asked["partition"]
        if look.is_ok and look.ended is not None:
            asked, offset = deleted_end(history, partition, look.ended), look.told["offset"]
            if offset > asked:
                text = f"{look.process} found the log start {offset}, but only records below {asked} were to be deleted"
                yield Finding("excessive-deletion", partition, text, (look.begun,))


def find_falling_log_starts(history: History) -> Iterator[Finding]:
    """Find log start offsets that are lower than one that was found or acknowledged before."""
    seen: dict[str, list[Operation]] = {}
    for operation in history.of("log-start", "delete-records"):
        if operation.is_ok:
            seen.setdefault(operation.asked["partition"], []).append(operation)
    for partition, operations in sorted(seen.items()):
        for look in operations:
            earlier = _highest(other for other in operations if other.ended_before(look))
            if look.kind == "log-start" and earlier is not None and look.told["offset"] < earlier.told["offset"]:
                text = f"{look.process} found the log start {look.told['offset']} after {earlier.told['offset']}"
                yield Finding("log-start-falls", partition, text, (earlier.begun, look.begun))


def find_undeleted(history: History) -> Iterator[Finding]:
    """Find records that the final read returned although their deletion was acknowledged."""
    for drain in history.of("drain"):
        polls = [poll for poll in history.of("poll") if poll.process == drain.process and poll.begun > drain.begun]
        for partition in drain.asked["partitions"]:
            deletions = _deletions(history).get(partition, ())
            last = _highest(each for each in deletions if each.is_ok and each.ended_before(drain))
            if last is None:
                continue
            read = [record for poll in polls for record in poll.records if record.partition == partition]
            for record in read[:1]:
                if record.offset < last.told["offset"]:
                    text = f"{record.value} at offset {record.offset} was read after all below {last.told['offset']}"
                    yield Finding("undeleted", partition, f"{text} were deleted", (last.begun, drain.begun))


def _highest(operations: Iterator[Operation]) -> Operation | None:
    return max(operations, key=lambda each: int(each.told["offset"]), default=None)
