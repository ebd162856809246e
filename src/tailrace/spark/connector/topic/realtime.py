"""Topics of a flow in real-time mode: Spark's own Kafka connector, on the JVM.

Only a source on the JVM can hand single records to Spark while a batch goes on. The columns and the options are those
of Tailrace's data source, which has taken them from this connector.
"""

from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "kafka"
PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_COLUMNS = "columns"
_OWN = (_COLUMNS, "delivery")
"""Options of Tailrace's data source that Spark's connector does not have."""
_NOT_JAVA = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location and ssl.truststore.type",
    "ssl.certificate.location": "ssl.keystore.location and ssl.keystore.type",
    "ssl.key.location": "ssl.keystore.location and ssl.keystore.type",
}
"""librdkafka's names of security configs, which Tailrace's own client has too."""


def read_realtime(source: Topic, start: FlowStart) -> "DataFrame":
    """Return the records of topics, with the columns that Tailrace's data source would return."""
    require_connector(start.spark)
    options = source.source_options(start.place)
    columns = [name for name in options.get(_COLUMNS, "").split(",") if name]
    if "headers" in columns:
        options["includeHeaders"] = "true"
    rows = start.spark.readStream.format(FORMAT).options(**_known(options)).load()
    return rows.select(*columns) if columns else rows


def write_realtime(writer: "DataStreamWriter", sink: Topic, place: FlowPlace) -> "DataStreamWriter":
    """Return a writer of records."""
    return writer.format(FORMAT).options(**_known(sink.sink_options(place)))


def require_connector(spark: "SparkSession") -> None:
    """Raise `PipelineError` if Spark's Kafka connector is not on the class path."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_CLASS, False, False)
    except Py4JError:
        raise PipelineError(
            'latency="realtime" needs Spark\'s Kafka connector; start with --conf '
            f"spark.jars.packages={PACKAGE}:{spark.version}, or the newest version before it"
        ) from None


def _known(options: dict[str, str]) -> dict[str, str]:
    for name, other in _NOT_JAVA.items():
        if f"kafka.{name}" in options:
            problem = f'Kafka\'s Java client, which latency="realtime" uses, has no config {name}; set {other}'
            raise PipelineError(problem)
    return {name: text for name, text in options.items() if name not in _OWN}
