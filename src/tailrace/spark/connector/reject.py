"""Rejected records and rows, in the tasks of a flow: they stop it, are left out, or become dead letters.

Dead letters are written by the task that rejects the record, before the task ends, so a batch is never counted as
finished without them. A task or a batch that is repeated writes them again: they arrive at least once.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.base.limits import SPARK_DEAD_LETTER_BYTES_MAX
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.connector.error_policy import STOP, ErrorPolicy, OnError
from tailrace.spark.connector.record_row import find_records
from tailrace.spark.dead_letter import Fault, Rejected, Stage, write_headers
from tailrace.spark.error import MalformedValue, RowRefused
from tailrace.spark.message import piece
from tailrace.spark.record_place import RecordPlace
from tailrace.spark.topic_io import topic_io

_CLIENT = {"kafka.max.request.size": str(SPARK_DEAD_LETTER_BYTES_MAX), "kafka.client.id": "tailrace-dead-letters"}


@dataclass(frozen=True, slots=True)
class Rejects:
    """Does with rejected records what the flow says; it is sent to tasks."""

    flow: str
    policy: ErrorPolicy = STOP
    client: Mapping[str, str] = field(default_factory=dict)
    """The configs of Kafka clients by name."""
    origin: Mapping[str, str] | None = None
    """The options of the reader, where rows keep the place of their record."""

    @property
    def needs_records(self) -> bool:
        """Whether rejected records are looked at, and not only counted."""
        return self.policy.action is not OnError.SKIP

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Raise the first one, leave them out, or write them to the dead-letter topic and wait until they are there."""
        if not rejected or self.policy.action is OnError.SKIP:
            return
        if self.policy.action is OnError.STOP:
            raise error_of(rejected[0])
        self._send(rejected)

    def refuse(self, rows: Iterable[RowRefused]) -> None:
        """Take rows that a sink refuses. Raises the first one if an error stops the flow."""
        self.take([refused_row(error) for error in rows])

    def without_sending(self) -> "Rejects":
        """Return the same, but without dead letters: a check of a flow writes nothing."""
        if self.policy.action is not OnError.SEND:
            return self
        return replace(self, policy=ErrorPolicy(OnError.SKIP))

    def _send(self, rejected: Sequence[Rejected]) -> None:
        found = rejected if self.origin is None else find_records(rejected, self.origin)
        settings = parse_client_settings({f"kafka.{name}": text for name, text in self.client.items()} | _CLIENT)
        with topic_io(settings).writer(self.policy.topic) as writer:
            for part in _parts(found):
                writer.write(self._letters(part))
            writer.finish()

    def _letters(self, rejected: Sequence[Rejected]) -> Any:
        """Return dead letters as rows of a topic."""
        import pyarrow as pa

        task = _task_number()
        headers = [
            [{"key": name, "value": value} for name, value in write_headers(each, self.flow, task)] for each in rejected
        ]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        columns = {
            "key": pa.array([each.key for each in rejected], pa.binary()),
            "value": pa.array([each.value for each in rejected], pa.binary()),
            "headers": pa.array(headers, kind),
        }
        return pa.RecordBatch.from_pydict(columns)


class RefusedCount:
    """How many rows the sink of a flow has refused, by reason. The copies that tasks get count nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, counts: Mapping[str, int]) -> None:
        """Count rows of a batch."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> dict[str, int]:
        """Return the counts of all batches."""
        with self._lock:
            return dict(self._counts)

    def __reduce__(self) -> tuple[type["RefusedCount"], tuple[()]]:
        return RefusedCount, ()


def error_of(rejected: Rejected) -> Exception:
    """Return the error with which a rejected record stops a flow."""
    where = "" if rejected.place is None else f"{rejected.place}: "
    text = f"{where}{rejected.fault.reason} ({piece(rejected.value)})"
    return MalformedValue(text) if rejected.stage is Stage.DECODE else RowRefused(text)


def refused_row(error: RowRefused) -> Rejected:
    """Return a row that a sink refused, as JSON."""
    value = None if error.row is None else row_json(error.row)
    return rejected_row(Stage.WRITE, Fault.of(error, type(error), error.reason), value, error.origin)


def rejected_row(stage: Stage, fault: Fault, row: bytes | None, origin: RecordPlace | None) -> Rejected:
    """Return a row that was rejected, with the place of its record if that is known."""
    topic, partition, offset = origin or (None, None, None)
    return Rejected(stage, fault, row, topic=topic, partition=partition, offset=offset, is_row=True)


def row_json(row: Mapping[str, Any]) -> bytes:
    """Return a row as a JSON object; values that JSON does not have are texts."""
    return json.dumps(dict(row), default=str, ensure_ascii=False).encode()


def _parts(rejected: Iterable[Rejected]) -> Iterator[list[Rejected]]:
    """Divide rejected records into parts whose values do not take too much memory together."""
    part: list[Rejected] = []
    size = 0
    for each in rejected:
        part.append(each)
        size += len(each.value or b"")
        if size >= SPARK_DEAD_LETTER_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part


def _task_number() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()
