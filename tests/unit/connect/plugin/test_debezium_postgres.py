"""Debezium's PostgreSQL connector as a pipeline."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.connect.plugin.loading import document, problems

from tailrace.connect.plugin.translation import translate

# The example of Debezium's documentation, with what has another default here.
SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "192.168.99.100",
    "database.port": "5432",
    "database.user": "postgres",
    "database.password": "very-secret",
    "database.dbname": "postgres",
    "topic.prefix": "fulfillment",
    "table.include.list": "public.inventory",
    "decimal.handling.mode": "string",
    "interval.handling.mode": "string",
}
KEPT = "SELECT * FROM source WHERE (value IS NULL OR get_json_object(value, '$.op') NOT IN ('t'))"


def test_changes_of_a_table_go_to_its_topic(tmp_path: Path) -> None:
    assert document(SOURCE, tmp_path) == {
        "name": "shop",
        "source": {
            "connector": "postgres_changes",
            "url": "postgresql://postgres:very-secret@192.168.99.100:5432/postgres",
            "tables": ["public.inventory"],
            "slot": "debezium",
            "publication": "dbz_publication",
            "snapshot": "initial",
            "format": "records",
            "name": "fulfillment",
        },
        "sql": KEPT,
        "sink": {"connector": "topic", "name": "fulfillment.public.inventory", "format": "raw"},
    }


def test_each_table_has_a_topic_and_all_share_one_slot(tmp_path: Path) -> None:
    config = SOURCE | {"table.include.list": r"public.inventory, sales\.orders"}
    names = ["fulfillment.public.inventory", "fulfillment.sales.orders"]
    found = document(config, tmp_path)
    assert found["sink"]["name"] == names
    assert found["source"]["tables"] == ["public.inventory", "sales.orders"]
    assert list(translate("shop", config).topics_written) == names


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"skipped.operations": "none"}, {"sql": None}),
        (
            {"skipped.operations": "none", "tombstones.on.delete": "false"},
            {"sql": "SELECT * FROM source WHERE value IS NOT NULL"},
        ),
        (
            {"skipped.operations": "d"},
            {"sql": "SELECT * FROM source WHERE get_json_object(value, '$.op') NOT IN ('d')"},
        ),
        ({"poll.interval.ms": "100"}, {"every": "100 milliseconds"}),
    ],
)
def test_settings_are_keys_of_the_flow(more: dict[str, str], expected: dict[str, Any], tmp_path: Path) -> None:
    found = document(SOURCE | more, tmp_path)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"snapshot.mode": "no_data"}, {"snapshot": "never"}),
        ({"slot.name": "mine", "publication.name": "ours"}, {"slot": "mine", "publication": "ours"}),
        ({"max.batch.size": "9", "snapshot.fetch.size": "7"}, {"batch_size": 9, "chunk_size": 7}),
        (
            {"database.sslmode": "verify-full", "database.sslrootcert": "/ca.pem"},
            {
                "url": "postgresql://postgres:very-secret@192.168.99.100:5432/postgres?sslmode=verify-full&sslrootcert=%2Fca.pem"
            },
        ),
        ({"plugin.name": "pgoutput", "publication.autocreate.mode": "filtered", "heartbeat.interval.ms": "0"}, {}),
    ],
)
def test_settings_are_arguments_of_the_source(more: dict[str, str], expected: dict[str, Any], tmp_path: Path) -> None:
    source = document(SOURCE | more, tmp_path)["source"]
    assert {name: source[name] for name in expected} == expected


REFUSED: list[tuple[dict[str, str], str, str]] = [
    (
        {"decimal.handling.mode": ""},
        "decimal.handling.mode",
        "its default in Debezium is not supported; set it to string",
    ),
    ({"decimal.handling.mode": "precise"}, "decimal.handling.mode", "only string can be used"),
    ({"interval.handling.mode": ""}, "interval.handling.mode", "set it to string"),
    ({"table.include.list": "public.*"}, "table.include.list", "is not the name of one table"),
    ({"table.include.list": ""}, "table.include.list", "name the tables"),
    ({"schema.include.list": "public"}, "schema.include.list", "name the tables in table.include.list"),
    ({"column.exclude.list": "a.b.c"}, "column.exclude.list", "postgres_changes, and sql"),
    ({"plugin.name": "wal2json"}, "plugin.name", "pgoutput is part of PostgreSQL"),
    ({"snapshot.mode": "always"}, "snapshot.mode", "only initial and never and no_data can be used"),
    ({"publication.autocreate.mode": "all_tables"}, "publication.autocreate.mode", "for the tables that are read"),
    ({"heartbeat.interval.ms": "1000"}, "heartbeat.interval.ms", "the slot advances while only other tables change"),
    ({"slot.drop.on.stop": "true"}, "slot.drop.on.stop", "drop the slot"),
    ({"skipped.operations": "x"}, "skipped.operations", "is not one of c, u, d, t and none"),
    (
        {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"},
        "transforms",
        "which have sql",
    ),
    ({"value.converter": "JsonConverter"}, "value.converter.schemas.enable", "JSON with schemas is not possible"),
    ({"database.server.name": "x"}, "database.server.name", "this setting is not known"),
    ({"slot.name": "My-Slot"}, "connector.class", "slot='My-Slot' is not a name of lower-case letters"),
    ({"database.port": "99x"}, "database.port", "Not a number of type INT"),
]


@pytest.mark.parametrize(("more", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(more: dict[str, str], name: str, words: str) -> None:
    found = problems(SOURCE | more)
    assert any(words in message for message in found.get(name, [])), found
    assert "very-secret" not in str(found)
