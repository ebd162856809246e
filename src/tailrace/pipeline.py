"""The public names for pipeline files: the decorator `flow`, and the connectors.

    from tailrace.pipeline import files, flow, topic

    @flow(source=topic("orders", schema="user string, cents bigint"), sink=files("orders"))
    def orders(orders):
        return orders.where("cents > 0")

`tailrace pipeline run FILE` runs it. `Source` and `Sink` are the interface for connectors of one's own. Importing this
module does not load Spark.
"""

from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.delta.delta import Delta, delta
from tailrace.spark.connector.files import Files, files
from tailrace.spark.connector.iceberg.iceberg import Iceberg, iceberg
from tailrace.spark.connector.jdbc import Jdbc, jdbc
from tailrace.spark.connector.lines.lines import Lines, lines
from tailrace.spark.connector.postgres.postgres import Postgres, postgres
from tailrace.spark.connector.postgres_changes.postgres_changes import PostgresChanges, postgres_changes
from tailrace.spark.connector.redis.redis import Redis, redis
from tailrace.spark.connector.s3.s3 import S3, s3
from tailrace.spark.connector.spark_format import SparkFormat, spark
from tailrace.spark.connector.table.table import Table, table
from tailrace.spark.connector.topic.topic import Topic, topic
from tailrace.spark.connector.webhook.webhook import WebhookSink, WebhookSource, webhook
from tailrace.spark.error import PipelineError, RetriableConnectorError, RowRefused
from tailrace.spark.pipeline.flow import Flow, flow

__all__ = [
    "S3",
    "Delivery",
    "Delta",
    "Files",
    "Flow",
    "FlowPlace",
    "FlowStart",
    "Iceberg",
    "Jdbc",
    "Lines",
    "PipelineError",
    "Postgres",
    "PostgresChanges",
    "Redis",
    "RetriableConnectorError",
    "RowRefused",
    "Sink",
    "Source",
    "SparkFormat",
    "Table",
    "Topic",
    "WebhookSink",
    "WebhookSource",
    "delta",
    "files",
    "flow",
    "iceberg",
    "jdbc",
    "lines",
    "postgres",
    "postgres_changes",
    "redis",
    "s3",
    "spark",
    "table",
    "topic",
    "webhook",
]
