"""The reader of Redis streams in micro-batches.

One object lives in the driver as long as the query, and returns the end of each batch; Spark keeps the positions in its
checkpoint. Each stream is read by one task, in the order of its entries.

A start at the newest entry is not logged by Spark until the first batch has its end. So the first batch of such a
query is empty, and the second one begins where the first one ended, also after a crash.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.spark.connector.redis.connection import RedisSettings, open_client, redis_scope
from tailrace.spark.connector.redis.loss import report_loss
from tailrace.spark.connector.redis.position import BEGIN, Found, Position, StreamState, advance, find_loss, id_key

COLUMNS = "stream string, id string, timestamp timestamp, fields map<string, binary>"
NEWEST_COUNT = 100
_CHUNK_COUNT = 1000
_TIME_MS_MAX = 253_402_300_799_999  # the end of the year 9999

_LOOK = """
local found = {0, '0-0', false, false, 0, false}
if redis.call('EXISTS', KEYS[1]) == 0 then return found end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'length' then found[1] = info[i + 1]
  elseif info[i] == 'last-generated-id' then found[2] = info[i + 1]
  elseif info[i] == 'first-entry' and info[i + 1] then found[3] = info[i + 1][1]
  elseif info[i] == 'entries-added' then found[4] = info[i + 1] end
end
local entries = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'COUNT', ARGV[3])
found[5] = #entries
if #entries > 0 then found[6] = entries[#entries][1] end
return found
"""
"""Looks at a stream and counts the entries after a position at one moment, without sending the entries."""


@dataclass(frozen=True, slots=True)
class StreamRead:
    """What a query reads."""

    settings: RedisSettings
    streams: tuple[str, ...]
    is_from_newest: bool = False
    batch_size: int = 50_000
    is_loss_failure: bool = True


@dataclass
class EntryRange(InputPartition):
    """The entries of one stream after an id and up to another one."""

    stream: str = ""
    after: str = BEGIN
    last: str = BEGIN
    count: int = 0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the entries of streams by their ids."""

    def __init__(self, wanted: StreamRead) -> None:
        self._wanted = wanted
        self._initial: dict[str, Position] | None = None
        self._is_first_batch = False
        self._target: dict[str, str] | None = None

    # --- positions, in the driver

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a query without a checkpoint."""
        if self._initial is None:
            self._initial = {stream: self._find_start(stream) for stream in self._wanted.streams}
        self._is_first_batch = self._wanted.is_from_newest
        return _to_json(self._initial)

    def _find_start(self, stream: str) -> Position:
        if not self._wanted.is_from_newest:
            return Position()
        state, _ = self._look(stream, BEGIN, BEGIN, 1)
        return Position(state.last_id, 0, state.added)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the number of entries that a batch reads at most from each stream."""
        return ReadMaxRows(self._wanted.batch_size)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there is none yet."""
        if self._is_first_batch:
            self._is_first_batch = False
            return dict(start)
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._wanted.batch_size
        return _to_json({stream: self._find_end(stream, start, count_max) for stream in self._wanted.streams})

    def _find_end(self, stream: str, start: Mapping[str, Any], count_max: int) -> Position:
        position = Position.from_json(start[stream]) if stream in start else Position()
        end = "+" if self._target is None else self._target[stream]
        if end != "+" and id_key(end) <= id_key(position.id):
            return position
        state, found = self._look(stream, position.id, end, count_max)
        if (loss := find_loss(position, state)) is not None:
            report_loss(f"stream {stream}: {loss}", is_failure=self._wanted.is_loss_failure)
            if id_key(state.last_id) < id_key(position.id):
                position = Position(BEGIN, position.read)
                state, found = self._look(stream, BEGIN, end, count_max)
        is_all = end == "+" and found.count < count_max
        return advance(position, state, found, is_all=is_all or found.last_id == state.last_id)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the entries that exist now."""
        self._target = {stream: self._look(stream, BEGIN, BEGIN, 1)[0].last_id for stream in self._wanted.streams}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the entries of one batch, a task for each stream that has some."""
        self._is_first_batch = False
        found: list[InputPartition] = []
        for stream in end:
            first = Position.from_json(start[stream]) if stream in start else Position()
            last = Position.from_json(end[stream])
            if last.read == first.read:
                continue
            after = first.id if id_key(first.id) < id_key(last.id) else BEGIN  # the stream was created again
            found.append(EntryRange(stream, after, last.id, last.read - first.read))
        return found or [EntryRange()]  # Spark creates one task even without rows

    def _look(self, stream: str, after: str, end: str, count_max: int) -> tuple[StreamState, Found]:
        settings = self._wanted.settings
        with redis_scope(settings, f"read stream {stream}"):
            reply = open_client(settings).eval(_LOOK, 1, stream, after, end, count_max)
        length, last_id, first_id, added, count, found_id = reply
        state = StreamState(length, first_id and first_id.decode(), last_id.decode(), added)
        return state, Found(count, found_id.decode() if found_id else after)

    # --- rows, in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the entries of one range as Arrow batches."""
        if not isinstance(partition, EntryRange) or not partition.count:
            return
        wanted, read_count, after = self._wanted, 0, partition.after
        while read_count < partition.count:
            with redis_scope(wanted.settings, f"read stream {partition.stream}"):
                client = open_client(wanted.settings)
                entries = client.xrange(partition.stream, f"({after}", partition.last, _CHUNK_COUNT)
            if not entries:
                break
            read_count += len(entries)
            after = entries[-1][0].decode()
            yield to_batch(partition.stream, entries)
        if read_count < partition.count:
            what = f"{partition.count - read_count} of {partition.count} entries up to {partition.last} were deleted"
            report_loss(f"stream {partition.stream}: {what}", is_failure=wanted.is_loss_failure)


class NewestReader(DataSourceReader):
    """Reads some of the newest entries of streams as a batch."""

    def __init__(self, wanted: StreamRead) -> None:
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """Return a task for each stream."""
        return [EntryRange(stream) for stream in self._wanted.streams]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the newest entries of one stream, oldest first."""
        if not isinstance(partition, EntryRange):
            return
        with redis_scope(self._wanted.settings, f"read stream {partition.stream}"):
            entries = open_client(self._wanted.settings).xrevrange(partition.stream, count=NEWEST_COUNT)
        if entries:
            yield to_batch(partition.stream, entries[::-1])


def data_source(wanted: StreamRead, flow: str) -> type[DataSource]:
    """Return the data source of one flow.

    Options of a data source are shown by Spark's web pages. So the settings, which may have a password, are part of a
    class of the flow's own, which is sent to workers by value.
    """
    digest = sha256(f"{flow} {','.join(wanted.streams)}".encode()).hexdigest()[:8]

    class RedisStreams(DataSource):
        """The streams of one flow."""

        @classmethod
        def name(cls) -> str:
            return f"tailrace_redis_{digest}"

        def schema(self) -> str:
            return COLUMNS

        def streamReader(self, schema: StructType) -> StreamReader:
            return StreamReader(wanted)

        def reader(self, schema: StructType) -> NewestReader:
            return NewestReader(wanted)

    return RedisStreams


def to_batch(stream: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> Any:
    """Return entries as an Arrow batch with the columns of `COLUMNS`."""
    ids = [entry_id.decode() for entry_id, _ in entries]
    offsets: list[int] = [0]
    names: list[str] = []
    values: list[bytes] = []
    for _, fields in entries:
        names += [name.decode(errors="backslashreplace") for name in fields]
        values += fields.values()
        offsets.append(len(names))
    return pa.RecordBatch.from_pydict(
        {
            "stream": pa.array([stream] * len(ids), pa.string()),
            "id": pa.array(ids, pa.string()),
            "timestamp": pa.array(list(map(_microseconds, ids)), pa.timestamp("us", "UTC")),
            "fields": pa.MapArray.from_arrays(
                pa.array(offsets, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.binary())
            ),
        }
    )


def _microseconds(entry_id: str) -> int | None:
    """Return the time of an entry; None if its id was chosen by a client and is not a time that Spark has."""
    time_ms = id_key(entry_id)[0]
    return time_ms * 1000 if time_ms <= _TIME_MS_MAX else None


def _to_json(positions: Mapping[str, Position]) -> dict[str, Any]:
    return {stream: position.to_json() for stream, position in positions.items()}
