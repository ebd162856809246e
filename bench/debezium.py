"""Debezium's connector for PostgreSQL as a plug-in of a real Kafka Connect worker, from its jars on Maven Central.

with KafkaConnect(broker.bootstrap_servers, plugins=[debezium_classpath()]) as connect:
    connect.create("changes", debezium_config(url, tables, prefix, slot))
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.kafka import require_java
from bench.maven import Classpath

DEBEZIUM_VERSION = "3.7.0.Final"
"""The release that is built for the version of Kafka Connect in `bench.kafka`, and runs on Java 17."""

_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def debezium_classpath(version: str = DEBEZIUM_VERSION) -> Classpath:
    """Return the jars of the connector and its dependencies; raises `Unavailable`."""
    require_java()
    return Classpath.of(f"debezium-postgres-{version}", [f"io.debezium:debezium-connector-postgres:{version}"])


def debezium_config(url: str, tables: Sequence[str], prefix: str, slot: str) -> dict[str, str]:
    """Return the config of a connector in the modes that `postgres_changes` has, with JSON without schemas.

    The publication has the name of the slot, and is created for the tables, which are names such as `public.orders`.
    """
    from psycopg.conninfo import conninfo_to_dict

    info = conninfo_to_dict(url)
    return {
        "connector.class": _CLASS,
        "database.hostname": str(info["host"]),
        "database.port": str(info["port"]),
        "database.user": str(info["user"]),
        "database.password": str(info["password"]),
        "database.dbname": str(info["dbname"]),
        "plugin.name": "pgoutput",
        "topic.prefix": prefix,
        "table.include.list": ",".join(name.replace(".", r"\.") for name in tables),
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "filtered",
        "publish.via.partition.root": "true",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
    }
