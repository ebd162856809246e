"""Topics as sources and sinks of flows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark import option
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS
from tailrace.spark.column import COLUMN_TYPES
from tailrace.spark.connector.argument import (
    Malformed,
    check_choice,
    check_columns,
    check_malformed,
    check_options,
    check_schema,
)
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.record_row import RECORD
from tailrace.spark.connector.topic.registered import Registered, ValueFormat, check_registered
from tailrace.spark.error import OptionError, PipelineError
from tailrace.spark.position import parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

VALUE = "value"
PLACE = ("topic", "partition", "offset")
"""The columns of a record that errors name."""
COMMITTED = {"kafka.isolation.level": "read_committed"}
"""Flows read only committed records of other flows."""


class Encoding(StrEnum):
    """The encoding of rows as records."""

    JSON = "json"
    RAW = "raw"


class Tombstones(StrEnum):
    """The handling of records without a value, where values are decoded."""

    NULL = "null"
    DROP = "drop"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Topic(Source, Sink):
    """Topics to read, or one topic to write; created by `topic`."""

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    takes_origin: ClassVar[bool] = True

    names: tuple[str, ...]
    schema: Any = None
    include: tuple[str, ...] = ()
    malformed: Malformed | None = None
    start: str | None = None
    key: str | None = None
    encoding: Encoding | None = None
    partitions: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    value: ValueFormat | None = None
    registered: Registered | None = None
    tombstones: Tombstones | None = None

    def __str__(self) -> str:
        return f"topic {','.join(self.names)}"

    # --- as a source

    def check_source(self) -> None:
        for name, value in (("key", self.key), ("format", self.encoding), ("partitions", self.partitions)):
            if value is not None:
                raise PipelineError(f"{self} is a source, and {name}= is for a sink")
        if self.schema is None and self.registered is None:
            if self.value is not None:
                raise PipelineError(f'{self}: value="json" needs schema= or registry=')
            if self.malformed is not None:
                raise PipelineError(f"{self} has no schema, so malformed= does not apply")
            if self.tombstones is not None:
                raise PipelineError(f"{self} has no schema, so tombstones= does not apply")

    def connect_source(self, place: FlowPlace) -> None:
        option.parse_source_options(self.source_options(place)).for_stream()

    def source_options(self, place: FlowPlace) -> dict[str, str]:
        """Return the options of the reader."""
        options = {"subscribe": ",".join(self.names), "startingOffsets": self.start or "earliest"}
        if self.registered is not None or self.schema is not None:
            # Only the needed columns are read.
            options["columns"] = ",".join(dict.fromkeys((VALUE, *self._error_columns(place), *self.include)))
        elif self.include:
            options["columns"] = ",".join(dict.fromkeys((*self.include, *self._origin_columns(place))))
        return {**COMMITTED, **_client_options(place), **options, **self.options}

    def _error_columns(self, place: FlowPlace) -> tuple[str, ...]:
        """Return the columns that are read for the sake of values that cannot be decoded."""
        names_records = self.malformed is not Malformed.NULL or self.tombstones is Tombstones.REJECT
        if not names_records or place.errors.action is OnError.SKIP:
            return self._origin_columns(place)
        return RECORD if place.errors.action is OnError.SEND else PLACE

    def _origin_columns(self, place: FlowPlace) -> tuple[str, ...]:
        """Return the columns that are read to name the records of refused rows."""
        return () if place.origin is None else PLACE

    def origin_options(self, place: FlowPlace) -> dict[str, str]:
        return option.client_options(self.source_options(place))

    def topics_read(self, place: FlowPlace) -> set[tuple[str, str]]:
        return {(self.source_options(place)[BOOTSTRAP_SERVERS], name) for name in self.names}

    def read(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.topic.frame import decode

        if start.place.is_realtime:
            from tailrace.spark.connector.topic.realtime import read_realtime

            return decode(read_realtime(self, start), self, start, start.place.rejects)
        return decode(self._read_stream(start), self, start, start.place.rejects)

    def _read_stream(self, start: FlowStart) -> "DataFrame":
        """Return the stream of records, without those that the flow excludes."""
        from tailrace.spark.connector.topic.left_out import load_without, read_left_out

        reader = start.spark.readStream.format("tailrace")
        return load_without(reader, self.source_options(start.place), read_left_out(start.place.checkpoint))

    def missing(self, place: FlowPlace) -> tuple[str, ...]:
        from tailrace.spark.connector.topic.newest import find_newest

        return tuple(name for name, offsets in find_newest(self, place).items() if offsets is None)

    def sample(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.topic.frame import decode
        from tailrace.spark.connector.topic.newest import read_newest

        return decode(read_newest(self, start), self, start, start.place.rejects.without_sending())

    # --- as a sink

    def check_sink(self) -> None:
        if len(self.names) > 1 and self.encoding is not Encoding.RAW:
            raise PipelineError(
                f"a flow writes to one topic, not to {len(self.names)}: declare a flow for each, "
                'or write rows with a column topic and format="raw"'
            )
        given = {
            "schema": self.schema,
            "malformed": self.malformed,
            "start": self.start,
            "include": self.include or None,
            "tombstones": self.tombstones,
        }
        for name, value in given.items():
            if value is not None:
                raise PipelineError(f"{self} is a sink, and {name}= is for a source")
        if self.registered is not None:
            if self.registered.version is not None or self.registered.follow:
                raise PipelineError(f"{self} is a sink, and schema_version= and follow= are for a source")
            if self.encoding is not None:
                raise PipelineError(f"{self}: format= and value= exclude each other")
        if self.key is not None and self.encoding == "raw":
            raise PipelineError(f"{self} is written raw, and takes its keys from the column key; leave out key=")

    def needs_origin(self, place: FlowPlace) -> bool:
        return self.registered is not None or place.errors.action is OnError.SEND  # plain JSON cannot be refused

    def connect_sink(self, place: FlowPlace) -> None:
        option.parse_sink_options(self.sink_options(place))

    def sink_options(self, place: FlowPlace) -> dict[str, str]:
        """Return the options of the writer."""
        is_exact = place.delivery is Delivery.EXACTLY_ONCE
        delivery = option.Delivery.EXACTLY_ONCE if is_exact else option.Delivery.AT_LEAST_ONCE
        topic = {"topic": self.names[0]} if len(self.names) == 1 else {}  # else each row names its topic
        return {**_client_options(place), **topic, "delivery": delivery.value, **self.options}

    def topics_written(self, place: FlowPlace) -> tuple[tuple[str, str], ...]:
        """Return the brokers and the name of each topic."""
        return tuple((self.sink_options(place)[BOOTSTRAP_SERVERS], name) for name in self.names)

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.topic.frame import encode

        return encode(rows, self, start)

    def write(self, writer: "DataStreamWriter", place: FlowPlace) -> "DataStreamWriter":
        if place.is_realtime:
            from tailrace.spark.connector.topic.realtime import write_realtime

            return write_realtime(writer, self, place)
        if place.mode == "update":
            # Python data sources cannot declare support for updates, so each micro-batch is written as a batch.
            return Sink.write(self, writer, place)
        return writer.format("tailrace").options(**self.sink_options(place))

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        batch.write.format("tailrace").options(**self.sink_options(place)).mode("append").save()


def topic(
    *names: str,
    value: str | None = None,
    schema: Any = None,
    registry: str | Mapping[str, str] | None = None,
    schema_version: int | None = None,
    follow: bool = False,
    include: Sequence[str] = (),
    malformed: str | None = None,
    start: str | None = None,
    key: str | None = None,
    format: str | None = None,
    partitions: int | None = None,
    tombstones: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Topic:
    """Topics as the source of a flow, or a topic as its sink.

    A source with a `schema` (DDL such as "user string, at timestamp", or a StructType) has its values decoded from JSON
    into these columns, and `include` keeps columns of the record beside them ("key", "timestamp", …); without a schema
    the columns are those of the record, as Spark's Kafka source has them. A value that does not fit is handled as
    errors= of the flow says, or with malformed="null" all its columns are null. A record without a value has null
    columns, or is left out with tombstones="drop", or handled as errors= says with "reject". A flow without a
    checkpoint starts at `start`: "earliest" (the default), "latest", or offsets as JSON.

    With value="avro" or "protobuf", or with "json" and `registry`, the schemas of values are in the registry at the URL
    `registry`, or at that of TAILRACE_REGISTRY_URL; a dictionary has configs of the connection, such as `url`
    and `basic.auth.user.info`. A source decodes values to the columns of one schema of the subject TOPIC-value: version
    `schema_version`, or the newest one when the flow is first started, or with `follow` the newest one at each start. A
    sink derives its schema from the columns, and registers it when the flow starts.

    A sink writes each row as a JSON object, with the column `key` as key; format="raw" writes the columns `value`,
    `key`, `headers` and `partition` as they are, to one of several topics if there is a column `topic`. A sink that
    does not exist is made, with so many `partitions`.
    `options` are those of the data source, such as maxOffsetsPerTrigger.
    """
    _check_names(names, key, partitions)
    place = f"topic({names[0]!r})"
    format_ = None if value is None else ValueFormat(check_choice(place, "value", value, ValueFormat))
    registered = None
    if format_ is not None and (format_ is not ValueFormat.JSON or registry is not None):
        registered = check_registered(place, names, schema, format_, registry, schema_version, follow=follow)
    elif registry is not None or schema_version is not None or follow:
        raise PipelineError(f'{place}: registry=, schema_version= and follow= need value=, such as value="avro"')
    return Topic(
        names=names,
        schema=check_schema(place, schema),
        include=_check_include(place, include),
        malformed=check_malformed(place, malformed),
        start=_check_start(place, start),
        key=key,
        encoding=None if format is None else Encoding(check_choice(place, "format", format, Encoding)),
        partitions=partitions,
        options=check_options(place, options),
        value=format_,
        registered=registered,
        tombstones=_check_tombstones(place, tombstones),
    )


def _check_names(names: tuple[str, ...], key: Any, partitions: Any) -> None:
    if not names:
        raise PipelineError("topic() needs the name of a topic")
    for name in names:
        if not isinstance(name, str) or not name.strip() or "," in name:
            raise PipelineError(f"topic(): {name!r} is not the name of a topic")
    if key is not None and not isinstance(key, str):
        raise PipelineError(f"topic({names[0]!r}): key={key!r} is not the name of a column")
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1):
        raise PipelineError(f"topic({names[0]!r}): partitions={partitions!r} is not a positive number")


def _client_options(place: FlowPlace) -> dict[str, str]:
    return {f"kafka.{name}": text for name, text in place.client.items()}


def _check_include(place: str, include: Sequence[str]) -> tuple[str, ...]:
    columns = check_columns(include)
    for name in columns:
        if name not in COLUMN_TYPES:
            raise PipelineError(f"{place}: a record has no column {name!r}; the columns are {', '.join(COLUMN_TYPES)}")
    return columns


def _check_tombstones(place: str, tombstones: object) -> Tombstones | None:
    return None if tombstones is None else Tombstones(check_choice(place, "tombstones", tombstones, Tombstones))


def _check_start(place: str, start: object) -> str | None:
    if start is None or start in ("earliest", "latest"):
        return None if start is None else str(start)
    try:
        parse_offsets("start", str(start))
    except OptionError as error:
        raise PipelineError(f'{place}: start={start!r} is neither "earliest" nor "latest"; {error.reason}') from None
    return str(start)
