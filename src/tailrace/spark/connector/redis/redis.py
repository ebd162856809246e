"""Redis streams and hashes as sources and sinks of flows."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.argument import (
    Malformed,
    check_choice,
    check_columns,
    check_malformed,
    check_schema,
    parse_schema,
)
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.redis.connection import RedisSettings, check_settings, connect, require_kind, slot_name
from tailrace.spark.connector.redis.frame import PLACE, decode, encode, template_columns
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.spark.connector.redis.stream_reader import StreamRead

BATCH_SIZE = 50_000


class StreamStart(StrEnum):
    """Where a flow without a checkpoint starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


class DataLoss(StrEnum):
    """The reaction to entries that were deleted before the flow read them."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Redis(Source, Sink):
    """Streams to read, or a stream or hashes to write; created by `redis`."""

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    takes_origin: ClassVar[bool] = True

    settings: RedisSettings
    streams: tuple[str, ...] = ()
    hash: str | None = None
    schema: Any = None
    include: tuple[str, ...] = ()
    malformed: Malformed | None = None
    start: StreamStart | None = None
    batch_size: int | None = None
    data_loss: DataLoss | None = None
    maxlen: int | None = None
    ttl: int | None = None

    def __str__(self) -> str:
        return f"redis stream {','.join(self.streams)}" if self.streams else f"redis hash {self.hash}"

    # --- as a source

    def check_source(self) -> None:
        if not self.streams:
            raise PipelineError(f"{self} is for sinks; a source reads stream=")
        for name, value in (("maxlen", self.maxlen), ("ttl", self.ttl)):
            if value is not None:
                raise PipelineError(f"{self} is a source, and {name}= is for a sink")
        if self.schema is None and (self.malformed is not None or self.include):
            raise PipelineError(f"{self} has no schema, so malformed= and include= do not apply")

    def connect_source(self, place: FlowPlace) -> None:
        for stream in self.streams:
            require_kind(self.settings, stream, "stream")

    def read(self, start: FlowStart) -> "DataFrame":
        return self._decode(self._load(start, start.spark.readStream), start.place.rejects)

    def sample(self, start: FlowStart) -> "DataFrame":
        return self._decode(self._load(start, start.spark.read), start.place.rejects.without_sending())

    def _load(self, start: FlowStart, reader: Any) -> "DataFrame":
        from tailrace.spark.connector.redis.stream_reader import data_source

        found = data_source(self.stream_read(), start.place.flow)
        start.spark.dataSource.register(found)
        rows: DataFrame = reader.format(found.name()).load()
        return rows

    def _decode(self, entries: "DataFrame", rejects: Rejects) -> "DataFrame":
        if self.schema is None:
            return entries
        schema = parse_schema(str(self), self.schema)
        for name in schema.fieldNames():
            if name in self.include:
                raise PipelineError(f"{self}: column {name} is both in the schema and in include")
        return decode(entries, schema, self.include, None if self.malformed is Malformed.NULL else rejects)

    def stream_read(self) -> "StreamRead":
        """Return what the reader of the streams needs."""
        from tailrace.spark.connector.redis.stream_reader import StreamRead

        return StreamRead(
            self.settings,
            self.streams,
            self.start is StreamStart.LATEST,
            self.batch_size or BATCH_SIZE,
            self.data_loss is not DataLoss.WARN,
        )

    # --- as a sink

    def check_sink(self) -> None:
        given = {
            "schema": self.schema,
            "include": self.include or None,
            "malformed": self.malformed,
            "start": self.start,
            "batch_size": self.batch_size,
            "data_loss": self.data_loss,
        }
        for name, value in given.items():
            if value is not None:
                raise PipelineError(f"{self} is a sink, and {name}= is for a source")
        if len(self.streams) > 1:
            raise PipelineError(f"a flow writes to one stream, not to {len(self.streams)}: declare a flow for each")
        if self.hash is not None and self.maxlen is not None:
            raise PipelineError(f"{self}: maxlen= is for streams")
        if self.streams and self.ttl is not None:
            raise PipelineError(f"{self}: ttl= is for hashes; maxlen= limits a stream")

    def connect_sink(self, place: FlowPlace) -> None:
        if self.streams:
            require_kind(self.settings, self.streams[0], "stream")
        else:
            connect(self.settings)

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        return encode(rows, self.hash, self)

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.batch_plan import read_plan
        from tailrace.spark.connector.redis.writer import HashTask, StreamTask, check_empty, commit, write_rows
        from tailrace.spark.connector.replay import read_query_id

        if self.hash is not None:
            write_rows(batch, HashTask(self.settings, place.rejects, self.ttl), place)
            return
        is_staged = place.delivery is Delivery.EXACTLY_ONCE
        task = StreamTask(self.settings, place.rejects, self.streams[0], is_staged, self.maxlen)
        staged = write_rows(batch, task, place)
        if not is_staged:
            return
        plan = read_plan(place.checkpoint, batch_id)
        if staged:
            commit(task, place.flow, batch_id, staged, plan)
        else:
            check_empty(task, place.flow, read_query_id(place.checkpoint), batch_id, plan)


def redis(
    url: str,
    *,
    stream: str | Sequence[str] | None = None,
    hash: str | None = None,
    schema: Any = None,
    include: Sequence[str] = (),
    malformed: str | None = None,
    start: str | None = None,
    batch_size: int | None = None,
    data_loss: str | None = None,
    maxlen: int | None = None,
    ttl: int | None = None,
    cluster: bool = False,
    timeout: float = 10.0,
) -> Redis:
    """Redis streams as the source of a flow, or a stream or hashes as its sink.

    A source reads the entries of `stream`, or of several. With a `schema` the fields of an entry are its columns, and
    `include` adds "stream", "id" or "timestamp"; without one the columns are stream, id, timestamp and fields.
    An entry with a field that does not fit its type is handled as errors= of the flow says, or with malformed="null"
    the field is null. A flow without a checkpoint starts at `start`, "earliest" (the default) or "latest", and reads at
    most `batch_size` entries of a stream in one batch. `data_loss` says what becomes of entries that were trimmed
    before they were read: "fail" (the default) or "warn".

    A sink appends each row to `stream`, whose length `maxlen` limits; or writes it to the hash whose key is the
    template `hash`, such as "user:{id}" with columns in braces, which expires after `ttl` seconds.

    `cluster` is for Redis Cluster. `timeout` is how long to wait for an answer, in seconds.
    """
    place = "redis()"
    streams = () if stream is None else _check_streams(place, stream)
    if bool(streams) == (hash is not None):
        raise PipelineError(f"{place} needs either stream= or hash=")
    place = f"redis({f'stream={streams[0]!r}' if streams else f'hash={hash!r}'})"
    if hash is not None and (not isinstance(hash, str) or not all(template_columns(hash) or [""])):
        raise PipelineError(f'{place}: hash= is a template with columns in braces, such as "user:{{id}}"')
    return Redis(
        check_settings(place, url, is_cluster=bool(cluster), timeout=timeout),
        streams,
        hash,
        check_schema(place, schema),
        _check_include(place, include),
        check_malformed(place, malformed),
        None if start is None else StreamStart(check_choice(place, "start", start, StreamStart)),
        _check_count(place, "batch_size", batch_size),
        None if data_loss is None else DataLoss(check_choice(place, "data_loss", data_loss, DataLoss)),
        _check_count(place, "maxlen", maxlen),
        _check_count(place, "ttl", ttl),
    )


def _check_streams(place: str, stream: str | Sequence[str]) -> tuple[str, ...]:
    streams: tuple[Any, ...] = check_columns(stream) if isinstance(stream, str | list | tuple) else (stream,)
    for name in streams:
        # With a brace that ends no hash tag, no other key can be put into the slot of the stream.
        if not isinstance(name, str) or not name or ("}" in name and slot_name(name) == f"{{{name}}}"):
            raise PipelineError(f"{place}: stream={name!r} is not the key of a stream")
    return streams


def _check_include(place: str, include: Sequence[str]) -> tuple[str, ...]:
    columns = check_columns(include)
    for name in columns:
        if name not in PLACE:
            raise PipelineError(f"{place}: an entry has no column {name!r}; the columns are {', '.join(PLACE)}")
    return columns


def _check_count(place: str, name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PipelineError(f"{place}: {name}={value!r} is not a positive number")
    return value
