"""The history of a test: the operations of clients and their outcomes, which checkers judge afterwards.

A history is a file of JSON lines in the order of events; simulated and real clients write the same format. An
operation begins with a line of type `invoke` and ends with one of type `ok` (it happened), `fail` (it certainly did
not) or `info` (unknown: a timeout, a lost connection). An operation without an end has an unknown outcome. Every line
has `time_ms`, `process`, `operation` (a number that is unique in the process), `type` and `kind`; a process that dies
and starts again has another name.

kind       at invoke                                    at ok
send       partition, value, idempotent (true),         offset (-1: acknowledged without an offset)
           transaction, source
poll       isolation (read_committed)                   records: [partition, offset, value, leader epoch or null] ...
assign     partitions whose position changes;
           of a member: group, change (assigned,
           revoked or lost), member (its instance id
           if it is static), generation or member epoch
           as it knows it (-1: none, or not comparable)
commit     group, offsets by partition
committed  group                                        offsets by partition (-1: none), of the returned partitions
drain      partitions                                   (each was read to its end after all sends)
                                                        stuck: partitions whose end an open transaction hides
alter      topic, configs by name                       (those of one config follow each other)
describe   topic, broker                                configs by name

delete-records  partition, offset                       low_watermark: the log start of all live replicas afterwards
log-start  partition                                    offset
retention  partition (a shorter one, and its end)       offset: the log end offset afterwards; all below may be gone

init       transactional_id                             (older producers with this id are fenced)
begin      transaction, transactional_id
offsets    transaction, group, offsets by partition     (they are part of the transaction)
end        transaction, commit (false: abort)

topic      topic, configs                               (it was made with these configs)
put        partition, key, value (null: a tombstone),   offset
           timestamp_ms
scan       partition, offset (where it begins), final   end, records: [offset, key, value, timestamp_ms] ...,
                                                        stalled (the end never came)
lookup     partition, timestamp_ms, leader_epoch, final offset, found_ms (of the record; -1: none)
expire     partition, before, offset (of the log start), (a broker's retention moved its log start)
           clock_ms, left_bytes, policy (that the broker follows)
compact    partition, policy             (a broker began to compact)

A partition has a name such as `views-0`. A value is sent once, by one process, to one partition. A transaction has a
unique name in the history. Only an operation that certainly never happened has failed: a commit that is rejected
because its producer is fenced may be the retry of a commit that happened, so its outcome is unknown. A poll with the
isolation `read_uncommitted` may return records of a transaction that never ends. A `source` is the record from which
the value was made, such as `views-0:17`; each record of its partition must become one value, exactly once.

A put is a send to a log that retention or compaction shortens. A key belongs to one process, so its puts have a known
order. No two puts have the same key, value and timestamp, so a record that was read shows which put wrote it. A scan
has read everything from `offset` up to `end`, with no gap. A lookup is a ListOffsets request to the leader of that
epoch, with -1 for the latest, -2 for the earliest and -3 for the largest timestamp. What is `final` was done after all
faults were healed and all clients had ended.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

INVOKE = "invoke"
OK = "ok"
FAIL = "fail"
INFO = "info"
READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"
_ENDS = (OK, FAIL, INFO)
_HEAD = ("time_ms", "process", "operation", "type", "kind")


class Record(NamedTuple):
    """One record as read by a consumer."""

    partition: str
    offset: int
    value: object
    leader_epoch: int | None = None


@dataclass(slots=True)
class Operation:
    """One operation. `begun` and `ended` are line numbers in the history."""

    process: str
    kind: str
    begun: int
    asked: Mapping[str, Any]
    outcome: str = INFO
    ended: int | None = None
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        return self.outcome == OK

    @property
    def records(self) -> list[Record]:
        """The records that a poll returned."""
        return [Record(*record) for record in self.told.get("records", ())]

    def ended_before(self, other: "Operation") -> bool:
        """Return whether this operation ended before the other began."""
        return self.ended is not None and self.ended < other.begun


class BadHistory(ValueError):
    """A line is not valid in a history."""


class History:
    """Operations in the order of their begin."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.operations: list[Operation] = []
        self._open: dict[tuple[str, int], Operation] = {}
        for place, event in enumerate(events, 1):
            self._add(place, event)

    def of(self, *kinds: str) -> list[Operation]:
        """Return the operations of these kinds."""
        return [operation for operation in self.operations if operation.kind in kinds]

    def _add(self, place: int, event: Mapping[str, Any]) -> None:
        if missing := [name for name in _HEAD if name not in event]:
            raise BadHistory(f"line {place} has no {', '.join(missing)}")
        rest = {name: value for name, value in event.items() if name not in _HEAD}
        key = (event["process"], event["operation"])
        if event["type"] == INVOKE:
            if key in self._open:
                raise BadHistory(f"line {place}: operation {key[1]} of {key[0]} has already begun")
            self._open[key] = Operation(event["process"], event["kind"], place, rest)
            self.operations.append(self._open[key])
            return
        operation = self._open.get(key)
        if operation is None or operation.ended is not None or event["type"] not in _ENDS:
            raise BadHistory(f"line {place}: {event['type']!r} ends no operation of {key[0]}")
        operation.outcome, operation.ended, operation.told = event["type"], place, rest


class Recorder:
    """Records a history in memory and, optionally, in a file."""

    def __init__(self, now_ms: Callable[[], float], file: IO[str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._now_ms = now_ms
        self._file = file
        self._count = 0

    def invoke(self, process: str, kind: str, **asked: object) -> "Pending":
        """Record the begin of an operation. The caller ends it, or leaves it open if it dies."""
        self._count += 1
        pending = Pending(self, process, kind, self._count)
        self.note(process, kind, self._count, INVOKE, asked)
        return pending

    def note(self, process: str, kind: str, operation: int, event_type: str, rest: Mapping[str, object]) -> None:
        """Add one line."""
        event = {
            "time_ms": round(self._now_ms(), 3),
            "process": process,
            "operation": operation,
            "type": event_type,
            "kind": kind,
            **rest,
        }
        self.events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event) + "\n")

    def history(self) -> History:
        """Return the history so far."""
        return History(self.events)


class Pending(NamedTuple):
    """An operation in progress."""

    recorder: Recorder
    process: str
    kind: str
    number: int

    def ok(self, **told: object) -> None:
        """Record that the operation happened."""
        self.recorder.note(self.process, self.kind, self.number, OK, told)

    def fail(self, reason: object) -> None:
        """Record that the operation certainly did not happen."""
        self.recorder.note(self.process, self.kind, self.number, FAIL, {"reason": str(reason)})

    def unknown(self, reason: object) -> None:
        """Record that the outcome is unknown."""
        self.recorder.note(self.process, self.kind, self.number, INFO, {"reason": str(reason)})


def read_history(*paths: Path) -> History:
    """Read a history from files; those of several processes are merged by time."""
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines() if line.strip()]
    if len(paths) > 1:
        events.sort(key=lambda event: event["time_ms"])
    return History(events)


def write_history(events: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a history to a file."""
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
