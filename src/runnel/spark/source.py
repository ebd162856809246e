"""The data source `runnel`: topics as rows, for Spark's readers and writers, batch and streaming."""

from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from runnel.spark.batch_reader import BatchReader, FilteringBatchReader
from runnel.spark.column import check_read_schema, check_write_schema, source_schema
from runnel.spark.error import OptionError
from runnel.spark.option import Delivery, SinkOptions, SourceOptions, parse_sink_options, parse_source_options
from runnel.spark.stream_reader import StreamReader
from runnel.spark.topic_io import topic_io
from runnel.spark.worker import is_planning_write, is_pushing_filters
from runnel.spark.writer import BatchWriter, ExactlyOnceBatchWriter, ExactlyOnceStreamWriter, MicroBatch, StreamWriter


class RunnelDataSource(DataSource):
    """What `format("runnel")` stands for. The options and columns are those of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "runnel"

    def schema(self) -> str:
        """The columns, as the options have them."""
        return source_schema(parse_source_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads between two bounds."""
        options = self._source_options(schema)
        is_pushing = is_pushing_filters() if options.pushdown is None else options.pushdown
        return FilteringBatchReader(options) if is_pushing else BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Reads everything that is written from a start on."""
        return StreamReader(self._source_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Writes rows to topics."""
        if overwrite:
            raise OptionError("mode", "records are only ever added to a topic; write with mode append")
        options = self._sink_options(schema)
        if options.delivery is Delivery.EXACTLY_ONCE:
            return ExactlyOnceBatchWriter(MicroBatch(options))
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        """Writes rows to topics, micro-batch by micro-batch. Output mode complete adds all rows each time."""
        options = self._sink_options(schema)
        if options.delivery is Delivery.EXACTLY_ONCE:
            return ExactlyOnceStreamWriter(MicroBatch(options))
        return StreamWriter(options)

    def _source_options(self, schema: StructType) -> SourceOptions:
        """The options, with the columns of the schema: those of the options, or a user's own choice."""
        return replace(parse_source_options(self.options), columns=check_read_schema(_fields(schema)))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        options = parse_sink_options(self.options)
        check_write_schema(_fields(schema), options.topic)
        if is_planning_write():  # here it is one error in the driver; in tasks it would be one for each
            topic_io(options.client).require_topic(options.topic)
        return options


def _fields(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
