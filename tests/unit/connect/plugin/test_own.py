"""Tailrace's own plugins: any connector, with the keys of a YAML file as settings."""

from pathlib import Path

import pytest
from tests.unit.connect.plugin.loading import document, problems

SOURCE = {
    "connector.class": "tailrace.Source",
    "source.connector": "redis",
    "source.url": "redis://localhost:6379",
    "source.stream": "clicks,views",
    "source.batch_size": "500",
    "topic": "clicks",
}
SINK = {
    "connector.class": "tailrace.Sink",
    "topics": "orders",
    "source.schema": "id bigint, cents bigint",
    "sink.connector": "s3",
    "sink.url": "s3://lake/orders",
    "sink.options.endpoint": "http://minio.example:9000",
    "sink.options.region": "eu-central-1",
}


def test_a_connector_is_a_source_with_its_arguments(tmp_path: Path) -> None:
    more = {"sql": "SELECT id FROM source", "sink.key": "id", "sink.partitions": "6", "delivery": "at-least-once"}
    assert document(SOURCE | more, tmp_path) == {
        "name": "shop",
        "source": {
            "connector": "redis",
            "url": "redis://localhost:6379",
            "stream": ["clicks", "views"],
            "batch_size": 500,
        },
        "sql": "SELECT id FROM source",
        "sink": {"connector": "topic", "name": "clicks", "key": "id", "partitions": 6},
        "delivery": "at-least-once",
    }


def test_a_connector_is_a_sink_with_its_arguments(tmp_path: Path) -> None:
    more = {
        "every": "1 minute",
        "expect.positive": "cents > 0",
        "expect.positive.on_fail": "reject",
        "expect.known": "id IS NOT NULL",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "source.options.maxOffsetsPerTrigger": "1000",
        "consumer.override.auto.offset.reset": "latest",
    }
    assert document(SINK | more, tmp_path) == {
        "name": "shop",
        "source": {
            "connector": "topic",
            "name": ["orders"],
            "schema": "id bigint, cents bigint",
            "start": "latest",
            "options": {"maxOffsetsPerTrigger": "1000"},
        },
        "sink": {
            "connector": "s3",
            "url": "s3://lake/orders",
            "options": {"endpoint": "http://minio.example:9000", "region": "eu-central-1"},
        },
        "every": "1 minute",
        "errors": {"to": "dead"},
        "expect": {"positive": {"rule": "cents > 0", "on_fail": "reject"}, "known": "id IS NOT NULL"},
    }


def test_types_of_arguments_are_those_of_the_function(tmp_path: Path) -> None:
    postgres = {
        "connector.class": "tailrace.Sink",
        "topics": "orders",
        "source.schema": "id bigint",
        "source.include": "key",
        "sink.connector": "postgres",
        "sink.url": "postgresql://db/shop",
        "sink.table": "orders",
        "sink.key": "id",
        "sink.evolve": "false",
    }
    found = document(postgres, tmp_path)
    assert found["sink"]["evolve"] is False
    assert found["source"]["include"] == "key"


REFUSED: list[tuple[dict[str, str], str, str]] = [
    (SOURCE | {"source.connector": "mongo"}, "source.connector", "there is no connector mongo; there are "),
    (SOURCE | {"source.connector": ""}, "source.connector", "String must be non-empty"),
    (SOURCE | {"source.connector": "topic"}, "source.connector", "there is no connector topic"),
    (SOURCE | {"source.streem": "x"}, "source.streem", "connector redis has no streem; it has url, "),
    (SOURCE | {"source.batch_size": "many"}, "source.batch_size", "it is a number"),
    (SOURCE | {"source.url": "http://redis.example"}, "source.connector", "redis"),
    (SOURCE | {"sink.name": "x"}, "sink.name", "connector topic has no name"),
    (SOURCE | {"value.converter": "JsonConverter"}, "value.converter", "set the format of values with sink.value"),
    (SOURCE | {"expect.a.on_fail": "drop"}, "expect.a.on_fail", "there is no rule expect.a"),
    (
        SINK | {"sink.connector": "postgres_changes", "sink.url": "postgresql://db/x"},
        "sink.connector",
        "cannot be a sink",
    ),
    (SINK | {"sink.look_back": "5"}, "sink.connector", "look_back= is for a source"),
    (SINK | {"sql.x": "5"}, "sql.x", "not known"),
    (SINK | {"delivery": "twice"}, "connector.class", "flow shop: delivery='twice' is not one of at-most-once"),
    (SINK | {"every": "often"}, "connector.class", "flow shop: every='often' is not a duration"),
    (SINK | {"expect.a": "x > 0", "expect.a.on_fail": "cry"}, "connector.class", "flow shop: "),
]


@pytest.mark.parametrize(("config", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(config: dict[str, str], name: str, words: str) -> None:
    found = problems(config)
    assert any(words in message for message in found.get(name, [])), found
