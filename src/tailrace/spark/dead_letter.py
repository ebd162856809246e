"""Dead letters: records that a flow could not process, with their origin and the reason in headers. Pure.

The headers have the names of Kafka Connect, so that tools for its dead-letter queues can read them. Those that Connect
does not have begin with `tailrace.errors.`. Key and value are those of the record. If a row made of the record was
rejected, a header has the row. A row whose record is not known has only a value, which is the row.
"""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tailrace.spark.record_place import RecordPlace

CONNECT = "__connect.errors."
OWN = "tailrace.errors."
REPLAYS = f"{OWN}replays"
"""How often a record was sent again. It stays on the record if it is rejected again."""

_TOPIC = f"{CONNECT}topic"
_PARTITION = f"{CONNECT}partition"
_OFFSET = f"{CONNECT}offset"
_FLOW = f"{CONNECT}connector.name"
_TASK = f"{CONNECT}task.id"
_STAGE = f"{CONNECT}stage"
_CLASS = f"{CONNECT}class.name"
_ERROR = f"{CONNECT}exception.class.name"
_MESSAGE = f"{CONNECT}exception.message"
_STACK = f"{CONNECT}exception.stacktrace"
_TIMESTAMP = f"{OWN}timestamp"
_ROW = f"{OWN}row"

_STACK_LENGTH_MAX = 8_000
_MESSAGE_LENGTH_MAX = 2_000
_ROW_LENGTH_MAX = 8_000

Headers = tuple[tuple[str, bytes | None], ...]


class Stage(StrEnum):
    """Where a record was rejected, in Kafka Connect's words."""

    DECODE = "VALUE_CONVERTER"
    TRANSFORM = "TRANSFORMATION"
    WRITE = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class Fault:
    """What was wrong: the text of the error, and the classes of the error and of the code that found it."""

    reason: str
    error: str
    finder: str
    stack: str = ""

    @classmethod
    def of(cls, error: BaseException, finder: type, reason: str | None = None) -> "Fault":
        """Return the fault that an error stands for."""
        stack = "".join(traceback.format_exception(error))
        return cls(str(error) if reason is None else reason, _name(type(error)), _name(finder), stack)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected record or row."""

    stage: Stage
    fault: Fault
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    is_row: bool = False
    """Whether `value` is a row that was made of the record, as JSON."""
    row: bytes | None = None
    """The row that was rejected, if `value` is that of its record."""

    @property
    def place(self) -> RecordPlace | None:
        """The place of the record, if it is known."""
        if self.topic is None or self.partition is None or self.offset is None:
            return None
        return RecordPlace(self.topic, self.partition, self.offset)


def write_headers(rejected: Rejected, flow: str, task: int | None) -> Headers:
    """Return the headers of a dead letter: those of the record, then those of the error."""
    fault = rejected.fault
    stack = fault.stack or f"{fault.error}: {fault.reason}"
    found = {
        _TOPIC: rejected.topic,
        _PARTITION: rejected.partition,
        _OFFSET: rejected.offset,
        _FLOW: flow,
        _TASK: task,
        _STAGE: rejected.stage,
        _CLASS: fault.finder,
        _ERROR: fault.error,
        _MESSAGE: fault.reason[:_MESSAGE_LENGTH_MAX],
        _STACK: stack[-_STACK_LENGTH_MAX:],  # the end names the cause
        _TIMESTAMP: rejected.timestamp_ms,
    }
    added = tuple((name, str(value).encode()) for name, value in found.items() if value is not None)
    row = () if (text := _text_of(rejected.row)) is None else ((_ROW, text[:_ROW_LENGTH_MAX].encode()),)
    return (*_without_error(rejected.headers), *added, *row)


def _text_of(row: bytes | None) -> str | None:
    """Return a row as a text; None for one that is written in a format of bytes."""
    try:
        return None if row is None else row.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it was read."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def flow(self) -> str | None:
        """The name of the flow that rejected the record."""
        return self._text(_FLOW)

    @property
    def stage(self) -> str | None:
        """Where it was rejected."""
        return self._text(_STAGE)

    @property
    def reason(self) -> str | None:
        """What was wrong."""
        return self._text(_MESSAGE)

    @property
    def origin(self) -> tuple[str, int, int] | None:
        """The topic, the partition and the offset of the record; None for a row, and without headers of an error."""
        topic, partition, offset = self._text(_TOPIC), self._number(_PARTITION), self._number(_OFFSET)
        return None if topic is None or partition is None or offset is None else (topic, partition, offset)

    @property
    def is_record(self) -> bool:
        """Whether key and value are those of the record, so that it can be sent again."""
        return self.origin is not None

    @property
    def record_timestamp_ms(self) -> int | None:
        """The timestamp of the record."""
        return self._number(_TIMESTAMP)

    @property
    def replays(self) -> int:
        """How often the record had been sent again before it was rejected."""
        return self._number(REPLAYS) or 0

    def replay_headers(self) -> Headers:
        """Return the headers of the record, with a count of its replays."""
        kept = (header for header in _without_error(self.headers) if header[0] != REPLAYS)
        return (*kept, (REPLAYS, str(self.replays + 1).encode()))

    def _text(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name and value is not None]
        return found[-1].decode(errors="replace") if found else None

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _without_error(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return headers without those of an error; a record that was copied from a dead-letter topic may have them."""
    return tuple(one for one in headers if not one[0].startswith(CONNECT) and one[0] not in (_TIMESTAMP, _ROW))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
