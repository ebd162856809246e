"""Confluent's JDBC sink as pipelines."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.connect.plugin.loading import document, load, problems

from tailrace.connect.plugin.translation import translate

AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry.example:8081",
}
SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "connection.url": "jdbc:postgresql://db/shop",
    "connection.user": "anna",
    "connection.password": "secret",
    "topics": "orders",
    "auto.create": "true",
}
JSON = SINK | {"tailrace.schema": "id bigint, cents bigint"}
TABLE = {"connector": "postgres", "url": "postgresql://anna:secret@db/shop", "create": True, "evolve": False}


def test_avro_values_are_inserted(tmp_path: Path) -> None:
    assert document(SINK | AVRO, tmp_path) == {
        "name": "shop",
        "source": {
            "connector": "topic",
            "name": "orders",
            "value": "avro",
            "registry": {"url": "http://registry.example:8081"},
            "tombstones": "reject",
        },
        "sink": {**TABLE, "table": "orders"},
    }


def test_json_values_have_the_columns_of_a_setting(tmp_path: Path) -> None:
    source = document(JSON, tmp_path)["source"]
    assert source["schema"] == "id bigint, cents bigint"
    converter = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    with_schema = document(JSON | converter, tmp_path)
    assert with_schema["source"]["schema"] == "payload struct<id bigint, cents bigint>"
    assert with_schema["sql"] == "SELECT payload.* FROM source"


@pytest.mark.parametrize(
    ("more", "sql", "sink"),
    [
        (
            {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id", "auto.evolve": "true"},
            None,
            {"key": ["id"], "mode": "upsert", "evolve": True},
        ),
        (
            {"insert.mode": "UPSERT", "pk.mode": "kafka", "errors.tolerance": "all"},
            "SELECT * EXCEPT (topic, partition, offset), topic AS `__connect_topic`, "
            "partition AS `__connect_partition`, offset AS `__connect_offset` FROM source",
            {"key": ["__connect_topic", "__connect_partition", "__connect_offset"], "mode": "upsert"},
        ),
        (
            {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "user", "delete.enabled": "true"},
            "SELECT * EXCEPT (key, value), CAST(key AS STRING) AS `user`, value IS NULL AS tailrace_deleted "
            "FROM source",
            {"key": ["user"], "mode": "upsert", "delete_when": "tailrace_deleted", "exclude": ["tailrace_deleted"]},
        ),
        (
            {
                "insert.mode": "upsert",
                "pk.mode": "record_key",
                "pk.fields": "user",
                "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                "key.converter.schemas.enable": "false",
                "tailrace.key.schema": "user string",
            },
            "SELECT * EXCEPT (key), "
            "from_json(CAST(key AS STRING), 'user string', map('mode', 'FAILFAST')).`user` "
            "AS `user` FROM source",
            {"key": ["user"], "mode": "upsert"},
        ),
        (
            {"fields.whitelist": "cents", "pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert"},
            "SELECT `id`, `cents` FROM source",
            {"key": ["id"], "mode": "upsert"},
        ),
        (
            {"table.name.format": "kafka_${topic}"},
            None,
            {"table": "kafka_orders"},
        ),
    ],
)
def test_modes_are_arguments_of_the_sink(
    more: dict[str, str], sql: str | None, sink: dict[str, Any], tmp_path: Path
) -> None:
    found = document(JSON | more, tmp_path)
    assert found.get("sql") == sql
    assert found["source"].get("tombstones") == (None if "delete.enabled" in more else "reject")
    assert found["sink"] == {**TABLE, "table": "orders", **sink}


def test_each_topic_has_a_flow_and_a_table(tmp_path: Path) -> None:
    translation = translate("shop", JSON | {"topics": "orders,items"})
    assert [flow.name for flow in load(translation, tmp_path)] == ["shop.orders", "shop.items"]
    assert [each["sink"]["table"] for each in translation.documents] == ["orders", "items"]


def test_other_databases_are_written_by_spark(tmp_path: Path) -> None:
    found = document(JSON | {"connection.url": "jdbc:mariadb://db/shop"}, tmp_path)
    assert found["sink"] == {
        "connector": "jdbc",
        "url": "jdbc:mariadb://db/shop",
        "options": {"user": "anna", "password": "secret"},
        "table": "orders",
    }


MARIADB = {"connection.url": "jdbc:mariadb://db/shop"}
REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"insert.mode": "update"}, "insert.mode", "only insert and upsert can be used"),
    ({"insert.mode": "upsert"}, "pk.mode", "insert.mode=upsert needs a key"),
    ({"pk.mode": "record_value"}, "pk.fields", "needs the names of the columns"),
    ({"pk.mode": "record_key", "pk.fields": "a,b"}, "pk.fields", "a key that is a text is one column"),
    ({"pk.mode": "kafka", "pk.fields": "a"}, "pk.fields", "three names, or none"),
    (
        {"pk.mode": "kafky"},
        "pk.mode",
        "String must be one of (case insensitive): NONE, KAFKA, RECORD_KEY, RECORD_VALUE",
    ),
    ({"delete.enabled": "true"}, "delete.enabled", "delete.enabled needs pk.mode=record_key"),
    ({"tailrace.schema": ""}, "tailrace.schema", "the columns of JSON values are needed"),
    (AVRO, "tailrace.schema", "the schema of Avro values is in the registry"),
    ({"value.converter": "StringConverter"}, "value.converter", "text is not possible for the values"),
    ({"topics": "a,b", "table.name.format": "t"}, "table.name.format", "use ${topic} in it"),
    ({"batch.size": "1"}, "batch.size", "rows are copied in large batches"),
    (MARIADB | {"insert.mode": "upsert", "pk.mode": "kafka"}, "insert.mode", "only possible with PostgreSQL"),
    (MARIADB | {"auto.evolve": "true"}, "auto.evolve", "only possible with PostgreSQL"),
    (MARIADB | {"auto.create": "false"}, "auto.create", "set it to true"),
]


@pytest.mark.parametrize(("more", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(more: dict[str, str], name: str, words: str) -> None:
    found = problems(JSON | more)
    assert any(words in message for message in found.get(name, [])), found
