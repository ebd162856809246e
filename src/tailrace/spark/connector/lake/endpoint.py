"""Tables as sources and sinks of flows: what those of Delta Lake and of Iceberg have in common."""

from abc import abstractmethod
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.lake.setting import MAX_FILES, SinkSettings, SourceSettings
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tailrace.spark.connector.lake.lake_table import LakeTable


_numbers = count()  # each source of a session has a name of its own


class LakeEndpoint(Source, Sink):
    """A table that a flow reads, or writes, exactly once by the commits of the table."""

    __slots__ = ()

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_MOST_ONCE)
    takes_origin: ClassVar[bool] = True

    sink: SinkSettings
    source: SourceSettings

    @abstractmethod
    def open_table(self, place: FlowPlace) -> "LakeTable | None":
        """Return the table; None if it does not exist. Raises `PipelineError` or `ConnectorError`."""

    @abstractmethod
    def create_table(self, place: FlowPlace, columns: "pa.Schema") -> None:
        """Create the table."""

    @abstractmethod
    def check_place(self, place: FlowPlace) -> None:
        """Raise `PipelineError` if the table does not exist and cannot be created where it should be."""

    # --- as a source

    def check_source(self) -> None:
        if (name := self.sink.given) is not None:
            raise PipelineError(f"{self} is a source, and {name}= is for a sink")

    def connect_source(self, place: FlowPlace) -> None:
        if self.open_table(place) is None:
            raise PipelineError(f"{self} does not exist")

    def read_place(self, place: FlowPlace) -> str:
        return str(self)

    def read(self, start: FlowStart) -> "DataFrame":
        return start.spark.readStream.format(self._register(start)).load()

    def sample(self, start: FlowStart) -> "DataFrame":
        return start.spark.read.format(self._register(start)).load()

    def _register(self, start: FlowStart) -> str:
        """Register the data source of the table, and return its name."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from tailrace.spark.connector.kept_schema import keep_schema
        from tailrace.spark.connector.lake.source import TableRead, data_source
        from tailrace.spark.connector.topic.value_type import spark_columns

        table = self.open_table(start.place)
        if table is None:
            raise PipelineError(f"{self} does not exist")
        columns = table.columns
        schema = keep_schema(start, str(self), lambda: spark_columns(columns))
        arrow = to_arrow_schema(schema, timezone="UTC")
        place = FlowPlace(start.place.flow, start.place.checkpoint, start.place.output)
        settings = self.source
        read = TableRead(self, place, arrow, settings.max_files or MAX_FILES, bool(settings.skip_changes))
        name = f"tailrace_table_{next(_numbers)}"
        start.spark.dataSource.register(data_source(name, read, schema))
        return name

    # --- as a sink

    def check_sink(self) -> None:
        if (name := self.source.given) is not None:
            raise PipelineError(f"{self} is a sink, and {name}= is for a source")
        self.sink.check(self)

    def needs_origin(self, place: FlowPlace) -> bool:
        return bool(self.sink.merge_key)  # the last change of a key is that with the highest offset

    def connect_sink(self, place: FlowPlace) -> None:
        if self.open_table(place) is None:
            if not self.sink.create:
                raise PipelineError(f"{self} does not exist, and create= is False; create the table")
            self.check_place(place)

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        if start.place.mode != "append" and not self.sink.merge_key:
            raise PipelineError(f"{self} needs key= for mode={start.place.mode!r}, which writes a row again")
        columns = self._written(rows)
        table = self.open_table(start.place)
        if table is not None:
            self._new_columns(table, columns)
        start.before_start(lambda: self._set_up(start.place, columns))
        return rows

    def _written(self, rows: "DataFrame") -> "pa.Schema":
        """Return the columns that are written; raises `PipelineError` for one that a table cannot have."""
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        from tailrace.spark.connector.lake.change import mark_changes
        from tailrace.spark.connector.lake.column import plain_schema
        from tailrace.spark.connector.lake.key import check_key_types
        from tailrace.spark.connector.lake.task import DELETE

        marked = mark_changes(rows, self.sink, self)
        fields = [field for field in marked.schema.fields if field.name not in (DELETE, ORIGIN)]
        try:
            arrow: Any = to_arrow_schema(StructType(fields), timezone="UTC")
        except PySparkException as error:
            raise PipelineError(f"{self}: a column has a type that tables do not have: {error}") from None
        columns = plain_schema([each.with_nullable(True) for each in arrow])
        check_key_types(self, columns, self.sink.merge_key)
        _check_partition_types(self, columns, self.sink.partition_by)
        return columns

    def _new_columns(self, table: "LakeTable", columns: "pa.Schema") -> "list[pa.Field]":
        from tailrace.spark.connector.lake.column import new_columns

        if self.sink.partition_by and self.sink.partition_by != table.partition_by:
            shown = ", ".join(table.partition_by) or "nothing"
            raise PipelineError(f"{self} is partitioned by {shown}, and partition_by= says otherwise; leave it out")
        return new_columns(self, table.columns, columns, evolve=self.sink.evolve)

    def _set_up(self, place: FlowPlace, columns: "pa.Schema") -> None:
        table = self.open_table(place)
        if table is None:
            self.create_table(place, columns)
        elif new := self._new_columns(table, columns):
            table.add_columns(new)

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.lake.sink import TableWrite

        table = self.open_table(place)
        if table is None:
            raise PipelineError(f"{self} was deleted while the flow was running; reset the flow to write it anew")
        if self._new_columns(table, self._written(batch)):
            raise PipelineError(f"{self} has lost columns since the flow was started; start it again")
        TableWrite(self, table, self.sink).write(batch, batch_id, place)


def _check_partition_types(sink: object, columns: "pa.Schema", names: tuple[str, ...]) -> None:
    import pyarrow as pa

    for name in names:
        kind = columns.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
            raise PipelineError(f"{sink}: column {name} is {kind}; partition_by= takes strings, integers and dates")
