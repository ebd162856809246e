"""The connectors by the names that YAML files and the Connect service use."""

from collections.abc import Callable
from typing import Any

from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.files import files
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.connector.jdbc import jdbc
from tailrace.spark.connector.lines.lines import lines
from tailrace.spark.connector.postgres.postgres import postgres
from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes
from tailrace.spark.connector.redis.redis import redis
from tailrace.spark.connector.s3.s3 import s3
from tailrace.spark.connector.spark_format import spark
from tailrace.spark.connector.table.table import table
from tailrace.spark.connector.topic.topic import topic
from tailrace.spark.connector.webhook.webhook import webhook

CONNECTORS: dict[str, Callable[..., Any]] = {
    "delta": delta,
    "files": files,
    "iceberg": iceberg,
    "jdbc": jdbc,
    "lines": lines,
    "postgres": postgres,
    "postgres_changes": postgres_changes,
    "redis": redis,
    "s3": s3,
    "spark": spark,
    "table": table,
    "topic": topic,
    "webhook": webhook,
}
