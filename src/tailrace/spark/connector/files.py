"""Folders of files as sources and sinks: Spark's file stream, and its file sink."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.argument import (
    Malformed,
    check_choice,
    check_columns,
    check_malformed,
    check_options,
    check_schema,
    parse_schema,
    require_columns,
)
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.kept_schema import keep_schema
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType


class FileFormat(StrEnum):
    """The formats of files."""

    AVRO = "avro"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    PARQUET = "parquet"
    TEXT = "text"


WITHOUT_SCHEMA = (FileFormat.CSV, FileFormat.JSON)
"""Formats whose files do not have the types of their columns."""

NOT_A_ROW = "row is not valid for the schema"
CORRUPT_ROW = "__malformed"
"""The column in which Spark puts the text of a row that it cannot read."""

# Spark does not compare the header with the schema unless it is told to, and takes the columns by their order.
_CSV_SOURCE = {"header": "true", "enforceSchema": "false"}
_CSV_SINK = {"header": "true"}
GLOB = frozenset("*?[{")
"""The characters that make a path a pattern."""

_METADATA, _OFFSETS = "_spark_metadata", "offsets"
"""Where Spark notes the batches that are in a folder, and those that a checkpoint has planned."""

_AVRO = "org.apache.spark.sql.avro.AvroFileFormat"
"""Spark 4.3 brings its Avro module, but does not know it by its short name."""


@dataclass(frozen=True, slots=True)
class Files(Source, Sink):
    """A folder of files to read or to write; created by `files`."""

    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_MOST_ONCE)

    path: str
    format: FileFormat = FileFormat.PARQUET
    schema: Any = None
    partition_by: tuple[str, ...] = ()
    malformed: Malformed | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.format} files {self.path}"

    @property
    def spark_format(self) -> str:
        """The name of the format in Spark."""
        return _AVRO if self.format is FileFormat.AVRO else self.format.value

    def location(self, place: FlowPlace) -> str:
        """Return the path of the folder."""
        return self.path if "://" in self.path else str(place.output / self.path)

    # --- as a source

    def check_source(self) -> None:
        if self.partition_by:
            raise PipelineError(f"{self} is a source, and partition_by= is for a sink")
        if self.schema is None and self.format in WITHOUT_SCHEMA:
            raise PipelineError(f"{self}: {self.format} files do not have the types of their columns; give schema=")
        if self.malformed is not None and self.format not in WITHOUT_SCHEMA:
            raise PipelineError(f"{self}: malformed= is for rows of CSV and JSON files")

    def connect_source(self, place: FlowPlace) -> None:
        path = self.location(place)
        if "://" in path or GLOB & set(path):
            return  # Spark looks for it
        if not Path(path).is_dir():
            raise PipelineError(f"{self}: there is no folder {path}; create it, or correct the path")

    def source_options(self) -> dict[str, str]:
        """Return the options of the reader."""
        options = dict(_CSV_SOURCE) if self.format is FileFormat.CSV else {}
        if self.format in WITHOUT_SCHEMA:
            options["columnNameOfCorruptRecord"] = CORRUPT_ROW
        return options | dict(self.options)

    def read(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.files_folder import read_checked

        path, rejects = self.location(start.place), start.place.rejects
        reader = start.spark.readStream.format(self.spark_format).options(**self.source_options())
        return read_checked(self, self._chosen_schema(start), rejects, lambda schema: reader.schema(schema).load(path))

    def sample(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.files_folder import read_checked, read_newest

        path, rejects = self.location(start.place), start.place.rejects.without_sending()
        return read_checked(
            self, self._chosen_schema(start), rejects, lambda schema: read_newest(start.spark, self, path, schema)
        )

    def _chosen_schema(self, start: FlowStart) -> "StructType":
        from tailrace.spark.connector.files_folder import check_format, infer_schema

        check_format(start.spark, self)
        if self.schema is not None:
            return parse_schema(str(self), self.schema)
        path = self.location(start.place)
        return keep_schema(start, path, lambda: infer_schema(start.spark, self, path))

    # --- as a sink

    def check_sink(self) -> None:
        for name, value in (("schema", self.schema), ("malformed", self.malformed)):
            if value is not None:
                raise PipelineError(f"{self} is a sink, and {name}= is for a source")

    def connect_sink(self, place: FlowPlace) -> None:
        path = self.location(place)
        if "://" in path:
            return
        if place.delivery is not Delivery.EXACTLY_ONCE:
            if (Path(path) / _METADATA).exists():
                raise PipelineError(
                    f"{self}: the folder has files of a flow that delivers exactly once, and Spark's readers would not "
                    f"see those of this one, because {_METADATA} does not have them; write to another folder"
                )
            return
        written, planned = _last_batch(Path(path) / _METADATA), _last_batch(place.checkpoint / _OFFSETS)
        if written > planned:
            raise PipelineError(
                f"{self}: the folder has batches up to number {written} of another checkpoint, and Spark would leave "
                f"out those of this one with the same numbers; move or remove {path}, or write to another folder"
            )

    def sink_options(self, place: FlowPlace) -> dict[str, str]:
        """Return the options of the writer."""
        options = _CSV_SINK if self.format is FileFormat.CSV else {}
        return {"path": self.location(place), **options, **self.options}

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.files_folder import check_columns_of_format, check_format

        require_columns(rows, self.partition_by, self)
        check_format(start.spark, self)
        check_columns_of_format(rows, self)
        return rows

    def write(self, writer: "DataStreamWriter", place: FlowPlace) -> "DataStreamWriter":
        writer = writer.format(self.spark_format).options(**self.sink_options(place))
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        writer = batch.write.format(self.spark_format).options(**self.sink_options(place)).mode("append")
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).save()


def _last_batch(folder: Path) -> int:
    """Return the highest number of a batch of which Spark has a note in a folder; -1 without one."""
    names = [path.name.removesuffix(".compact") for path in folder.glob("[0-9]*")]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def files(
    path: Any,
    *,
    format: str = "parquet",
    schema: Any = None,
    partition_by: Sequence[str] = (),
    malformed: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Files:
    """Return a folder of files as the source or the sink of a flow.

    A path that is not absolute begins at the folder of the pipeline file, or at the one that `--output` names. `format`
    is "parquet", "orc", "avro", "csv", "json" (a JSON object in each line) or "text" (the column `value`). `options`
    are those that Spark has for files of the format, such as maxFilesPerTrigger.

    A source reads the files of the folder, and those that come later. CSV and JSON need a `schema` (DDL such as
    "user string, at timestamp", or a StructType); for other formats it is that of the files, if there are any when the
    flow starts. A row of CSV or JSON that does not fit is handled as errors= of the flow says, or with malformed="null"
    the columns that cannot be read are null.

    A sink adds files in each batch. `partition_by` makes a folder for each value of some columns.
    """
    text = str(path)
    if not text.strip():
        raise PipelineError("files() needs the path of a folder")
    place = f"files({text!r})"
    return Files(
        path=text,
        format=FileFormat(check_choice(place, "format", format, FileFormat)),
        schema=check_schema(place, schema),
        partition_by=check_columns(partition_by),
        malformed=check_malformed(place, malformed),
        options=check_options(place, options),
    )
