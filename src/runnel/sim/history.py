"""What clients asked of a cluster and what they were told, as a plain list that is judged afterwards.

A history is a file of JSON lines in the order in which things happened; simulated and real clients write the same.
An operation begins with a line of type `invoke` and ends with one of type `ok` (it happened), `fail` (it surely did
not) or `info` (nobody knows: a time-out, a lost connection). An operation without an end is one of which nobody
knows. Every line has `time_ms`, `process`, `operation` (a number of the process's own), `type` and `kind`; a process
that dies and starts again has another name.

kind       at invoke                                    at ok
send       partition, value, idempotent (true),         offset (-1: acknowledged, but nobody said where)
           transaction, source
poll       isolation (read_committed)                   records: [partition, offset, value, leader epoch or null] ...
assign     partitions that are read anew from somewhere
commit     group, offsets by partition
committed  group                                        offsets by partition (-1: nothing), of those that it told
drain      partitions                                   (each was read to the end that it had after all sends)
                                                        stuck: those of which a transaction that is open hides the end

init       transactional_id                             (older producers with this id are fenced)
begin      transaction, transactional_id
offsets    transaction, group, offsets by partition     (they are a part of the transaction)
end        transaction, commit (false: it is aborted)

A partition is a name such as `views-0`. A value is sent once, by anybody, to one partition. A transaction has a name
of its own in the whole history. Only what surely never happened has failed: a commit that is refused because its
producer is fenced may be the repetition of one that was done, so nobody knows of it. What a poll with the isolation
`read_uncommitted` brings may be of a transaction that never ends. A `source` is the record that the value was made
of, as `views-0:17`; each record of its partition is to be made into one value, exactly once.
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
    """One record as a consumer saw it."""

    partition: str
    offset: int
    value: object
    leader_epoch: int | None = None


@dataclass(slots=True)
class Operation:
    """One operation from its beginning to its end. `begun` and `ended` are places in the history."""

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
        """What a poll brought."""
        return [Record(*record) for record in self.told.get("records", ())]

    def ended_before(self, other: "Operation") -> bool:
        """Whether this one was over when the other began."""
        return self.ended is not None and self.ended < other.begun


class BadHistory(ValueError):  # noqa: N818 - says what it is
    """A line that is none of a history."""


class History:
    """Operations in the order in which they began."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.operations: list[Operation] = []
        self._open: dict[tuple[str, int], Operation] = {}
        for place, event in enumerate(events, 1):
            self._add(place, event)

    def of(self, *kinds: str) -> list[Operation]:
        """The operations of these kinds."""
        return [operation for operation in self.operations if operation.kind in kinds]

    def _add(self, place: int, event: Mapping[str, Any]) -> None:
        if missing := [name for name in _HEAD if name not in event]:
            raise BadHistory(f"line {place} has no {', '.join(missing)}")
        rest = {name: value for name, value in event.items() if name not in _HEAD}
        key = (event["process"], event["operation"])
        if event["type"] == INVOKE:
            if key in self._open:
                raise BadHistory(f"line {place}: operation {key[1]} of {key[0]} has begun before")
            self._open[key] = Operation(event["process"], event["kind"], place, rest)
            self.operations.append(self._open[key])
            return
        operation = self._open.get(key)
        if operation is None or operation.ended is not None or event["type"] not in _ENDS:
            raise BadHistory(f"line {place}: {event['type']!r} ends no operation of {key[0]}")
        operation.outcome, operation.ended, operation.told = event["type"], place, rest


class Recorder:
    """Takes a history down as it happens, in memory and, if wanted, in a file."""

    def __init__(self, now_ms: Callable[[], float], file: IO[str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._now_ms = now_ms
        self._file = file
        self._count = 0

    def invoke(self, process: str, kind: str, **asked: object) -> "Pending":
        """Note that an operation begins; the caller ends it, or leaves it open if it dies."""
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
        """What has been taken down so far."""
        return History(self.events)


class Pending(NamedTuple):
    """An operation that has begun."""

    recorder: Recorder
    process: str
    kind: str
    number: int

    def ok(self, **told: object) -> None:
        """It happened."""
        self.recorder.note(self.process, self.kind, self.number, OK, told)

    def fail(self, reason: object) -> None:
        """It surely did not happen."""
        self.recorder.note(self.process, self.kind, self.number, FAIL, {"reason": str(reason)})

    def unknown(self, reason: object) -> None:
        """Nobody knows whether it happened, or will."""
        self.recorder.note(self.process, self.kind, self.number, INFO, {"reason": str(reason)})


def read_history(*paths: Path) -> History:
    """The history in these files; those of several processes are put together by their times."""
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines() if line.strip()]
    if len(paths) > 1:
        events.sort(key=lambda event: event["time_ms"])
    return History(events)


def write_history(events: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Keep a history for later."""
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
