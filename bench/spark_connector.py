"""The official Kafka connector of Spark, from Maven Central, in the nearest available version."""

from __future__ import annotations

from pathlib import Path

from bench.cache import Unavailable
from bench.maven import Classpath

KAFKA_CLIENTS = "org.apache.kafka:kafka-clients:3.9.2"
COMMONS_POOL = "org.apache.commons:commons-pool2:2.13.1"
OLDER_VERSIONS = (("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))
"""Connector and token provider. A release of Spark may be on PyPI before it is on Maven Central, and a mirror may lack
some; these run on Spark 4.3."""


def connector_jars(spark_version: str) -> list[Path]:
    """Return the jars that `format("kafka")` needs in addition to those of pyspark; raise `Unavailable`."""
    reason = None
    for connector, tokens in ((spark_version, spark_version), *OLDER_VERSIONS):
        artifacts = [
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{tokens}",
            KAFKA_CLIENTS,
            COMMONS_POOL,
        ]
        name = f"spark-{connector}-{tokens}"
        try:
            return sorted(Classpath.of(name, artifacts, is_transitive=False).folder.glob("*.jar"))
        except Unavailable as error:
            reason = reason or error
    raise reason or Unavailable("no version was asked for")
