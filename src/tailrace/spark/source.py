"""The data source `tailrace`: topics as rows, for Spark's readers and writers, batch and streaming."""

from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from tailrace.spark.batch_reader import BatchReader, FilteringBatchReader
from tailrace.spark.column import check_read_schema, check_write_schema, source_schema
from tailrace.spark.error import OptionError
from tailrace.spark.option import Delivery, SinkOptions, SourceOptions, parse_sink_options, parse_source_options
from tailrace.spark.stream_reader import StreamReader
from tailrace.spark.topic_io import topic_io
from tailrace.spark.worker import is_planning_write, is_pushing_filters
from tailrace.spark.writer import BatchWriter, ExactlyOnceBatchWriter, ExactlyOnceStreamWriter, MicroBatch, StreamWriter


class TailraceDataSource(DataSource):
    """The data source of `format("tailrace")`, with the options and columns of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tailrace"

    def schema(self) -> str:
        """Return the schema."""
        return source_schema(parse_source_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = self._source_options(schema)
        is_pushing = is_pushing_filters() if options.pushdown is None else options.pushdown
        return FilteringBatchReader(options) if is_pushing else BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of a stream."""
        return StreamReader(self._source_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query."""
        if overwrite:
            raise OptionError("mode", "topics are append-only; write with mode append")
        options = self._sink_options(schema)
        if options.delivery is Delivery.EXACTLY_ONCE:
            return ExactlyOnceBatchWriter(MicroBatch(options))
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a stream. Output mode complete appends all rows in each micro-batch."""
        options = self._sink_options(schema)
        if options.delivery is Delivery.EXACTLY_ONCE:
            return ExactlyOnceStreamWriter(MicroBatch(options))
        return StreamWriter(options)

    def _source_options(self, schema: StructType) -> SourceOptions:
        """Return the options, with the columns of a schema that the user has set."""
        return replace(parse_source_options(self.options), columns=check_read_schema(_fields(schema)))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        options = parse_sink_options(self.options)
        check_write_schema(_fields(schema), options.topic)
        if is_planning_write():  # checked in the driver, because otherwise every task would fail
            topic_io(options.client).require_topic(options.topic)
        return options


def _fields(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
