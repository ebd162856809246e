"""Checks of deletions: no more is deleted than requested, deleted records stay away, and the log start only grows.

A request with an unknown outcome may still be carried out late. So a record may be gone as soon as its deletion was
requested, and must be gone once it was acknowledged. A short retention may delete everything up to the log end offset
of the time when it was restored, and need not delete anything.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import FAIL, History, Operation


def deleted_end(history: History, partition: str, until: float = inf) -> float:
    """Return the highest offset below which records may be gone, because of requests that began before a line."""
    asked = [each for each in _deletions(history).get(partition, ()) if each.begun < until]
    return max((_asked_end(each) for each in asked), default=0)


def _asked_end(deletion: Operation) -> float:
    """Return the offset below which an administrator allowed the records to go. It is infinite if it is unknown."""
    end: float = deletion.asked["offset"] if deletion.kind == "delete-records" else deletion.told.get("offset", inf)
    return end


@lru_cache(maxsize=1)  # several checkers use it in turn
def _deletions(history: History) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for operation in history.of("delete-records", "retention"):
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
    """Find log start offsets that are lower than one up to which an acknowledged request had deleted before."""
    for look in history.of("log-start"):
        partition = look.asked["partition"]
        last = _last_acknowledged(history, partition, look)
        if look.is_ok and last is not None and look.told["offset"] < last.told["low_watermark"]:
            text = f"{look.process} found the log start {look.told['offset']} after {last.told['low_watermark']}"
            yield Finding("log-start-falls", partition, text, (last.begun, look.begun))


def find_undeleted(history: History) -> Iterator[Finding]:
    """Find records that the final read returned although their deletion was acknowledged."""
    for drain in history.of("drain"):
        polls = [poll for poll in history.of("poll") if poll.process == drain.process and poll.begun > drain.begun]
        for partition in drain.asked["partitions"]:
            last = _last_acknowledged(history, partition, drain)
            if last is None:
                continue
            end = last.told["low_watermark"]
            read = [record for poll in polls for record in poll.records if record.partition == partition]
            for record in read[:1]:
                if record.offset < end:
                    text = f"{record.value} at offset {record.offset} was read after all below {end}"
                    yield Finding("undeleted", partition, f"{text} were deleted", (last.begun, drain.begun))


def _last_acknowledged(history: History, partition: str, before: Operation) -> Operation | None:
    """Return the request that had deleted the most records when an operation began."""
    requests = [each for each in _deletions(history).get(partition, ()) if each.kind == "delete-records" and each.is_ok]
    done = [each for each in requests if each.ended_before(before)]
    return max(done, key=lambda each: int(each.told["low_watermark"]), default=None)
