"""The writers of rows to Redis, in tasks, and the commit of a batch to a stream.

A stream is written exactly once in two steps. Each task writes its rows to a stream of its own beside the target. Then
the driver runs one script, which moves the rows of all tasks to the target and notes the number of the batch. Redis
runs a script as a whole or not at all. A batch that comes again after a failure finds its number, and is left out. So
it does not matter how Spark divides a repeated batch into tasks. Rows of a task that was lost expire.

All keys of a batch are in the hash slot of the target, so the script also runs in a cluster.

Hashes need none of this: writing a row again sets the same fields of the same key.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.redis.connection import RedisSettings, open_client, redis_scope, slot_name
from tailrace.spark.connector.redis.frame import KEY
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.replay import is_repeated
from tailrace.spark.error import RowRefused
from tailrace.spark.record_place import ORIGIN
from tailrace.spark.task_place import task_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULT = "key string, row_count bigint, query_id string, reason string"
"""What a task returns: a row with the stream that it wrote, and one for each reason for which rows were refused."""
STAGED_TTL_S = 24 * 3600
_ROWS_AT_ONCE = 500
_ROWS_IN_TEN_S = 50_000  # a busy machine moves 30,000 rows a second
_EMPTY = "all columns are null, and an entry of a stream has at least one field"
_NO_KEY = "a column of the key is null"
_OTHER_KIND = "the key holds another kind of value than a hash"

Row = dict[str, bytes | None]

_COMMIT = """
local last = redis.call('HGET', KEYS[2], ARGV[1])
local noted = redis.call('HGET', KEYS[2], ARGV[1] .. ' plan')
local plan = ARGV[#ARGV]
local moved = 0
if not last or tonumber(last) < tonumber(ARGV[2]) then
  for i = 3, #KEYS do
    if redis.call('XLEN', KEYS[i]) ~= tonumber(ARGV[i + 1]) then
      return redis.error_reply('STAGED rows of the batch have expired or were deleted')
    end
  end
  for i = 3, #KEYS do
    local after = '-'
    repeat
      local rows = redis.call('XRANGE', KEYS[i], after, '+', 'COUNT', 1000)
      for _, row in ipairs(rows) do
        if ARGV[3] == '' then
          redis.call('XADD', KEYS[1], '*', unpack(row[2]))
        else
          redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', unpack(row[2]))
        end
        after = '(' .. row[1]
      end
      moved = moved + #rows
    until #rows < 1000
  end
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  if plan ~= '' then redis.call('HSET', KEYS[2], ARGV[1] .. ' plan', plan) end
end
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
return {moved, tonumber(last or ARGV[2]), noted}
"""


def notes_key(stream: str) -> str:
    """Return the key of the hash that has the last batch of each query, and the fingerprint of its plan."""
    return f"{slot_name(stream)}:tailrace:batches"


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Writes the rows of a task to a stream: to the target itself, or to a stream of the task's own."""

    settings: RedisSettings
    rejects: Rejects
    stream: str
    is_staged: bool
    length_max: int | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write Arrow batches, and return what was written."""
        query_id = task_place().query_id if self.is_staged else ""
        key = f"{slot_name(self.stream)}:tailrace:{query_id}:{uuid4().hex}" if self.is_staged else self.stream
        row_count, refused = 0, Counter[str]()
        for rows in _chunks(batches):
            entries = [pairs for row in rows if (pairs := _pairs(row))]
            wrong = [RowRefused(_EMPTY, _shown(row)) for row in rows if not _pairs(row)]
            self._write(key, entries)
            row_count += len(entries)
            self.rejects.refuse(wrong)
            refused.update(error.reason for error in wrong)
        yield _result(refused, key, row_count, query_id)

    def _write(self, key: str, entries: Sequence[Sequence[str | bytes]]) -> None:
        limit = () if self.is_staged or self.length_max is None else ("MAXLEN", "~", self.length_max)
        with redis_scope(self.settings, f"write stream {self.stream}"):
            pipe = open_client(self.settings).pipeline(transaction=False)
            for number, pairs in enumerate(entries):
                pipe.execute_command("XADD", key, *limit, "*", *pairs)
                if self.is_staged and number == 0:  # at once, for a task that is killed
                    pipe.expire(key, STAGED_TTL_S)
            pipe.execute()


@dataclass(frozen=True, slots=True)
class HashTask:
    """Writes each row of a task to the hash of its key."""

    settings: RedisSettings
    rejects: Rejects
    ttl_s: int | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write Arrow batches, and return what was refused."""
        refused = Counter[str]()
        for rows in _chunks(batches):
            wrong = [RowRefused(_NO_KEY, _shown(row)) for row in rows if row[KEY] is None]
            wrong += self._write([row for row in rows if row[KEY] is not None])
            self.rejects.refuse(wrong)
            refused.update(error.reason for error in wrong)
        yield _result(refused)

    def _write(self, rows: list[Row]) -> list[RowRefused]:
        """Write rows, and return those that Redis refused."""
        with redis_scope(self.settings, "write hashes"):
            pipe = open_client(self.settings).pipeline(transaction=False)
            counts = [self._add(pipe, row) for row in rows]
            replies = iter(pipe.execute(raise_on_error=False))
            refused = []
            for row, count in zip(rows, counts, strict=True):
                errors = [reply for reply in islice(replies, count) if isinstance(reply, Exception)]
                if errors and "WRONGTYPE" not in str(errors[0]):
                    raise errors[0]
                refused += [RowRefused(_OTHER_KIND, _shown(row))] if errors else []
            return refused

    def _add(self, pipe: Any, row: Row) -> int:
        """Add the commands of one row, and return their number."""
        key = row[KEY]
        fields = {name: value for name, value in row.items() if name not in (KEY, ORIGIN)}  # some: those of the key
        commands: list[tuple[Any, ...]] = [("HSET", key, *_pairs(fields))]
        if nulls := [name for name, value in fields.items() if value is None]:
            commands.append(("HDEL", key, *nulls))
        if self.ttl_s is not None:
            commands.append(("EXPIRE", key, self.ttl_s))
        for command in commands:
            pipe.execute_command(*command)
        return len(commands)


def write_rows(rows: "DataFrame", task: StreamTask | HashTask, place: FlowPlace) -> list[Any]:
    """Write the rows of a batch; returns the streams that its tasks wrote."""
    found = rows.mapInArrow(task, _RESULT).collect()
    for one in found:
        if one.reason is not None:
            place.refused.add({one.reason: one.row_count})
    return [one for one in found if one.reason is None and one.row_count]


def commit(task: StreamTask, flow: str, batch_id: int, staged: list[Any], plan: str | None = None) -> int:
    """Move the rows of all tasks to the stream, unless the batch was committed before; returns their number.

    `plan` is the fingerprint of the batch. Raises `ConnectorError` if a later batch was committed before, or another
    one of this number.
    """
    if not staged:
        return 0
    keys = [task.stream, notes_key(task.stream), *(one.key for one in staged)]
    name = f"{flow} {staged[0].query_id}"
    limit = "" if task.length_max is None else task.length_max
    counts = [one.row_count for one in staged]
    # Redis answers when the script has ended, which takes longer for a large batch.
    patient = replace(task.settings, timeout_s=task.settings.timeout_s + 10 * (sum(counts) // _ROWS_IN_TEN_S))
    with redis_scope(patient, f"commit batch {batch_id} to stream {task.stream}"):
        client = open_client(patient)
        moved, last, noted = client.eval(_COMMIT, len(keys), *keys, name, batch_id, limit, *counts, plan or "")
    _check_last(task, flow, batch_id, plan, last, noted)
    return int(moved)


def check_empty(task: StreamTask, flow: str, query_id: str, batch_id: int, plan: str | None) -> None:
    """Check a batch without rows, which is not committed.

    Raises `ConnectorError` if a later batch was committed before, or another one of this number.
    """
    name = f"{flow} {query_id}"
    with redis_scope(task.settings, f"look for batch {batch_id} of stream {task.stream}"):
        last, noted = open_client(task.settings).hmget(notes_key(task.stream), [name, f"{name} plan"])
    _check_last(task, flow, batch_id, plan, None if last is None else int(last), noted)


def _check_last(
    task: StreamTask, flow: str, batch_id: int, plan: str | None, last: int | None, noted: bytes | None
) -> None:
    is_repeated(last, batch_id, flow, f"stream {task.stream}", None if noted is None else noted.decode(), plan)


def _result(refused: Counter[str], key: str | None = None, row_count: int = 0, query_id: str | None = None) -> Any:
    import pyarrow as pa

    columns = {
        "key": pa.array([key, *(None for _ in refused)], pa.string()),
        "row_count": pa.array([row_count, *refused.values()], pa.int64()),
        "query_id": pa.array([query_id, *(None for _ in refused)], pa.string()),
        "reason": pa.array([None, *refused], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _chunks(batches: Iterator[Any]) -> Iterator[list[Row]]:
    """Yield the rows of Arrow batches, as many as are sent at once."""
    for batch in batches:
        for begin in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(begin, _ROWS_AT_ONCE).to_pylist()


def _pairs(row: Row) -> list[str | bytes]:
    return [part for name, value in row.items() if value is not None and name != ORIGIN for part in (name, value)]


def _shown(row: Row) -> dict[str, str | None]:
    return {name: None if value is None else value.decode(errors="replace") for name, value in row.items()}
