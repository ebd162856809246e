"""Objects of a store as sources and sinks of flows."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.base.limits import MIB
from tailrace.spark.connector.argument import Malformed, check_choice, check_malformed, check_schema
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.s3.object_format import COMPRESSIONS, ObjectFormat
from tailrace.spark.connector.s3.position import Order
from tailrace.spark.connector.s3.store import StoreSettings, check_settings, check_store, open_store
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROLL_BYTES = 128 * MIB
LOOK_BACK_S = 600.0
MAX_OBJECTS = 1_000
_TOKEN_SIZE = 4


@dataclass(frozen=True, slots=True)
class S3(Source, Sink):
    """A prefix of an object store to read or to write; created by `s3`."""

    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_MOST_ONCE)

    settings: StoreSettings
    format: ObjectFormat
    schema: Any = None
    malformed: Malformed | None = None
    order: Order = Order.MODIFIED
    look_back_s: float = LOOK_BACK_S
    max_objects: int = MAX_OBJECTS
    roll_bytes: int = ROLL_BYTES
    compression: str | None = None
    _given: frozenset[str] = frozenset()
    """The arguments that are only for sources or only for sinks, and were given."""

    def __str__(self) -> str:
        return f"{self.format} objects {self.settings}"

    # --- as a source

    def check_source(self) -> None:
        self._refuse({"roll_bytes", "compression"}, "source", "sink")
        if self.schema is None and self.format == "json":
            raise PipelineError(f"{self}: JSON does not have the types of columns; give schema=")
        if self.malformed is not None and self.format != "json":
            raise PipelineError(f"{self}: malformed= is for lines of JSON")

    def connect_source(self, place: FlowPlace) -> None:
        check_store(self.settings.with_environment())

    def read_place(self, place: FlowPlace) -> str:
        return f"objects of {self.settings.url}"

    def read(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.s3.frame import read_frame

        return read_frame(start, self, start.place.rejects, lambda name: start.spark.readStream.format(name).load())

    def sample(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.s3.frame import read_frame

        rejects = start.place.rejects.without_sending()
        return read_frame(start, self, rejects, lambda name: start.spark.read.format(name).load())

    # --- as a sink

    def check_sink(self) -> None:
        self._refuse({"schema", "malformed", "order", "look_back", "max_objects"}, "sink", "source")

    def connect_sink(self, place: FlowPlace) -> None:
        check_store(self.settings.with_environment())

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.s3.frame import encode_rows

        encode_rows(rows, self)
        return rows

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.batch_plan import read_plan
        from tailrace.spark.connector.replay import compute_only, read_query_id
        from tailrace.spark.connector.s3.commit import BatchCommit
        from tailrace.spark.connector.s3.frame import encode_rows
        from tailrace.spark.connector.s3.name import BatchName, Written
        from tailrace.spark.connector.s3.task_writer import RESULT, TaskWriter

        settings = self.settings.with_environment()
        name = BatchName(place.flow, read_query_id(place.checkpoint), batch_id)
        plan = read_plan(place.checkpoint, batch_id)
        commit = BatchCommit(settings, open_store(settings), name, plan)
        if commit.is_committed():
            compute_only(batch)
        else:
            rows, avro_schema = encode_rows(batch, self)
            compression = self.compression or COMPRESSIONS[self.format][0]
            token = secrets.token_hex(_TOKEN_SIZE)
            writer = TaskWriter(settings, name, token, self.format, compression, self.roll_bytes, avro_schema)
            found = rows.mapInArrow(writer.write, RESULT).collect()
            if found:
                commit.commit([Written(each["name"], each["rows"], each["bytes"]) for each in found])
        commit.delete_strays()

    def _refuse(self, names: set[str], this: str, other: str) -> None:
        for name in sorted(self._given & names):
            raise PipelineError(f"{self} is a {this}, and {name}= is for a {other}")


def s3(
    url: str,
    *,
    format: str = "parquet",
    schema: Any = None,
    malformed: str | None = None,
    order: str | None = None,
    look_back: float | None = None,
    max_objects: int | None = None,
    roll_bytes: int | None = None,
    compression: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> S3:
    """Return objects of a store as the source or the sink of a flow.

    `url` is s3://BUCKET/PREFIX, or one of gs, az, abfss or file. `format` is "parquet", "avro" or "json" (a JSON object
    in each line). `options` are those of the store, such as endpoint, region and access_key_id; by default they come
    from the environment, such as AWS_ACCESS_KEY_ID.

    A source reads the objects below the prefix, and those that come later. JSON needs a `schema`; for other formats it
    is that of the newest object when the flow starts. Objects are read in the `order` in which they were "modified",
    and `look_back` is how many seconds an object may come late; or by "name", for names that only grow. A batch has
    at most `max_objects`. A line of JSON that does not fit is handled as errors= of the flow says, or with
    malformed="null" all its columns are null.

    A sink writes one object for each task of a batch, or more of about `roll_bytes` each.
    """
    given = {
        "schema": schema,
        "malformed": malformed,
        "order": order,
        "look_back": look_back,
        "max_objects": max_objects,
        "roll_bytes": roll_bytes,
        "compression": compression,
    }
    settings = check_settings("s3()", url, options)
    place = f"s3({settings.url!r})"
    chosen = ObjectFormat(check_choice(place, "format", format, ObjectFormat))
    if compression is not None and compression not in COMPRESSIONS[chosen]:
        raise PipelineError(
            f"{place}: compression={compression!r} is not one of {', '.join(COMPRESSIONS[chosen])}, which {chosen} has"
        )
    return S3(
        settings,
        chosen,
        check_schema(place, schema),
        check_malformed(place, malformed),
        Order.MODIFIED if order is None else Order(check_choice(place, "order", order, Order)),
        LOOK_BACK_S if look_back is None else _check_number(place, "look_back", look_back, 0),
        MAX_OBJECTS if max_objects is None else int(_check_number(place, "max_objects", max_objects, 1)),
        ROLL_BYTES if roll_bytes is None else int(_check_number(place, "roll_bytes", roll_bytes, 1)),
        compression,
        frozenset(name for name, value in given.items() if value is not None),
    )


def _check_number(place: str, name: str, value: Any, least: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise PipelineError(f"{place}: {name}={value!r} is not a number of at least {least}")
    return float(value)
