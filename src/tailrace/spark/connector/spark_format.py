"""Any data source of Spark as a source or a sink of flows, by the name of its format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.argument import check_schema, parse_schema
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.error import PipelineError
from tailrace.spark.message import clean, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SAMPLE_ROWS = 100


@dataclass(frozen=True, slots=True)
class SparkFormat(Source, Sink):
    """A data source of Spark whose sink may write a batch twice; created by `spark`."""

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: Any = None

    def __str__(self) -> str:
        return f"spark format {self.format}"

    def read(self, start: FlowStart) -> "DataFrame":
        try:
            return self._load(start.spark.readStream)
        except Exception as error:  # of any data source, in Java or in Python
            java = getattr(error, "java_exception", None)
            reason = str(error) if java is None else str(java.getMessage())
            raise PipelineError(f"{self} cannot be read as a stream: {shorten(clean(reason))}") from None

    def sample(self, start: FlowStart) -> "DataFrame":
        try:
            return self._load(start.spark.read).limit(_SAMPLE_ROWS)
        except Exception:  # the format is only for streams
            return start.spark.createDataFrame([], self.read(start).schema)

    def _load(self, reader: Any) -> "DataFrame":
        reader = reader.format(self.format).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(parse_schema(str(self), self.schema))
        rows: DataFrame = reader.load()
        return rows

    def check_sink(self) -> None:
        if self.schema is not None:
            raise PipelineError(f"{self} is a sink, and schema= is for a source")

    def write(self, writer: "DataStreamWriter", place: FlowPlace) -> "DataStreamWriter":
        return writer.format(self.format).options(**self.options)

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        batch.write.format(self.format).options(**self.options).mode("append").save()


@dataclass(frozen=True, slots=True)
class ExactSparkFormat(SparkFormat):
    """A data source of Spark whose sink leaves out a batch that it has."""

    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)


def spark(
    format: str, *, options: Mapping[str, Any] | None = None, schema: Any = None, exactly_once: bool = False
) -> SparkFormat:
    """Any data source of Spark, by the name of its format, as the source or the sink of a flow.

    `options` are those of the format, such as `path`. A source may have a `schema` (DDL, or a StructType) and must be
    one that Spark can read as a stream. A sink writes at least once. `exactly_once` says that the format leaves out a
    batch that it has, as Spark's own formats of files and Delta Lake do, so that the flow may promise it.
    """
    if not isinstance(format, str) or not format.strip():
        raise PipelineError("spark() needs the name of a format, such as rate")
    place = f"spark({format!r})"
    if options is not None and not isinstance(options, Mapping):
        raise PipelineError(f"{place}: options= is a mapping of names to values")
    found = {}
    for name, value in (options or {}).items():
        if str(name).lower() == "checkpointlocation":
            raise PipelineError(f"{place}: option {name} is set by the pipeline; use --checkpoint")
        found[str(name)] = str(value).lower() if isinstance(value, bool) else str(value)
    kind = ExactSparkFormat if exactly_once else SparkFormat
    return kind(format, found, check_schema(place, schema))
