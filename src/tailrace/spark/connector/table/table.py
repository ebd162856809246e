"""Compacted topics as tables that streams are joined with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark import option
from tailrace.spark.connector.argument import check_options, check_schema, parse_schema
from tailrace.spark.connector.base import FlowPlace, FlowStart, Source
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Table(Source):
    """The newest row of each key of a topic; created by `table`."""

    is_stream: ClassVar[bool] = False

    topic: Topic
    key: str
    schema: Any

    def __str__(self) -> str:
        return f"table {self.topic.names[0]}"

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the topic."""
        return self.topic.names

    def topics_read(self, place: FlowPlace) -> set[tuple[str, str]]:
        return self.topic.topics_read(place)

    def connect_source(self, place: FlowPlace) -> None:
        self._options(place)

    def _options(self, place: FlowPlace) -> option.SourceOptions:
        return option.parse_source_options(self.topic.source_options(place)).for_batch()

    def missing(self, place: FlowPlace) -> tuple[str, ...]:
        return self.topic.missing(place)

    def read(self, start: FlowStart) -> "DataFrame":
        return self._load(start, start.place.rejects)

    def sample(self, start: FlowStart) -> "DataFrame":
        return self._load(start, start.place.rejects.without_sending())

    def _load(self, start: FlowStart, rejects: Rejects) -> "DataFrame":
        """Return the rows as a batch. Spark computes it anew for each batch of the stream."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from tailrace.spark.connector.table.json_row import key_decoder, row_decoder
        from tailrace.spark.connector.table.task import TableTask
        from tailrace.spark.topic_io import topic_io

        schema, options = self._columns(), self._options(start.place)
        columns = to_arrow_schema(schema, timezone="UTC")
        try:
            row_decoder(columns)
            key_decoder(columns.field(self.key).type, self.key)
        except PipelineError as error:
            raise PipelineError(f"{self}: {error}") from None
        name = self.topic.names[0]
        partition_count = topic_io(options.client).partition_counts([name]).get(name, 1)
        part_count = min(partition_count, start.spark.sparkContext.defaultParallelism)
        task = TableTask(name, options, columns, self.key, part_count, rejects)
        return start.spark.range(0, part_count, 1, part_count).mapInArrow(task.read, schema)

    def _columns(self) -> "StructType":
        """Return the columns of the rows: the key first, unless the schema has it."""
        from pyspark.sql.types import StringType, StructField, StructType

        schema = parse_schema(str(self), self.schema)
        if self.key in schema.fieldNames():
            return schema
        return StructType([StructField(self.key, StringType()), *schema.fields])


def table(name: str, *, key: str, schema: Any, options: Mapping[str, Any] | None = None) -> Table:
    """Return a topic as a table: the newest row of each key, to join the stream of another source with.

        orders = topic("orders", schema="customer string, cents bigint")
        customers = table("customers", key="customer", schema="city string")

        @flow(source=[orders, customers], sink=topic("orders_by_city"))
        def orders_by_city(orders, customers): return orders.join(customers, "customer", "left")

    `key` names the column with the record's key, and `schema` (DDL such as "city string", or a StructType) has the
    columns of the value, which is JSON. A record without a value deletes the row. Each batch of the stream sees the
    table as it is when the batch starts. `options` are those of the data source, such as kafka.bootstrap.servers.
    """
    if not isinstance(name, str) or not name.strip() or "," in name:
        raise PipelineError(f"table(): {name!r} is not the name of a topic")
    place = f"table({name!r})"
    if not isinstance(key, str) or not key.strip():
        raise PipelineError(f"{place}: key={key!r} is not the name of a column")
    if schema is None:
        raise PipelineError(f"{place}: schema= is missing")
    found = Topic(names=(name,), options=check_options(place, options))
    return Table(found, key, check_schema(place, schema))
