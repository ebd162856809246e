"""FileStream connectors as pipelines, and the settings that all connectors have."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.connect.plugin.loading import document, problems

from tailrace.connect.plugin.base import NewTopic
from tailrace.connect.plugin.translation import translate

# The configurations of Kafka's quickstart.
SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "test.txt", "topic": "connect-test"}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "test.sink.txt", "topics": "connect-test"}
JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_lines_of_a_file_go_to_a_topic(tmp_path: Path) -> None:
    assert document(SOURCE, tmp_path) == {
        "name": "shop",
        "source": {"connector": "lines", "path": "test.txt"},
        "sink": {"connector": "topic", "name": "connect-test", "format": "raw"},
    }
    translation = translate("shop", SOURCE)
    assert (translation.topics_written, translation.topics_read) == (("connect-test",), ())


def test_values_of_topics_go_to_lines_of_a_file(tmp_path: Path) -> None:
    assert document(SINK | {"topics": "a, b"}, tmp_path) == {
        "name": "shop",
        "source": {"connector": "topic", "name": ["a", "b"]},
        "sql": "SELECT coalesce(CAST(value AS STRING), 'null') AS value FROM source",
        "sink": {"connector": "lines", "path": "test.sink.txt"},
    }
    assert translate("shop", SINK | {"topics": "a,b"}).topics_read == ("a", "b")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SOURCE | {"batch.size": "10"}, {"source": {"connector": "lines", "path": "test.txt", "max_lines": 10}}),
        (
            SOURCE | {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "500"},
            {"every": "500 milliseconds"},
        ),
        (SOURCE | {"errors.tolerance": "all"}, {"errors": "skip"}),
        (
            SOURCE | {"producer.override.compression.type": "lz4"},
            {
                "sink": {
                    "connector": "topic",
                    "name": "connect-test",
                    "format": "raw",
                    "options": {"kafka.compression.type": "lz4"},
                }
            },
        ),
        (
            SINK | {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"},
            {"errors": {"to": "dead"}},
        ),
        (
            SINK | {"consumer.override.auto.offset.reset": "latest", "consumer.override.fetch.min.bytes": "1000"},
            {
                "source": {
                    "connector": "topic",
                    "name": ["connect-test"],
                    "start": "latest",
                    "options": {"kafka.fetch.min.bytes": "1000"},
                }
            },
        ),
    ],
)
def test_settings_of_the_worker_are_keys_of_the_flow(config: dict[str, str], expected: Any, tmp_path: Path) -> None:
    found = document(config, tmp_path)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_json_is_written_and_read(enabled: str, tmp_path: Path) -> None:
    converter = {"value.converter": JSON, "value.converter.schemas.enable": enabled}
    written = document(SOURCE | converter, tmp_path)["sql"]
    assert ('"schema":{"type":"string","optional":false}' in written) == (enabled == "true")
    read = document(SINK | converter, tmp_path)["sql"]
    assert ("$.payload" in read) == (enabled == "true")


def test_converters_of_the_worker_are_for_connectors_that_name_none(tmp_path: Path) -> None:
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    assert "to_json" in document(SOURCE, tmp_path, worker=worker)["sql"]
    text = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert "sql" not in document(SOURCE | text, tmp_path, worker=worker)


def test_topics_are_created_as_the_groups_say() -> None:
    config = SOURCE | {
        "topic.creation.groups": "compacted",
        "topic.creation.default.partitions": "6",
        "topic.creation.default.replication.factor": "3",
        "topic.creation.default.retention.ms": "1000",
        "topic.creation.compacted.include": "connect-.*",
        "topic.creation.compacted.cleanup.policy": "compact",
    }
    assert translate("shop", config).new_topics == (NewTopic("connect-test", 6, 3, {"cleanup.policy": "compact"}),)
    other = config | {"topic.creation.compacted.include": "other"}
    assert translate("shop", other).new_topics == (NewTopic("connect-test", 6, 3, {"retention.ms": "1000"}),)
    dead = SINK | {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    assert translate("shop", dead).new_topics == (NewTopic("dead", 1, 1),)


REFUSED: list[tuple[dict[str, str], str, str]] = [
    (SOURCE | {"file": ""}, "file", "the standard input cannot be read"),
    (SOURCE | {"topic": ""}, "topic", "String must be non-empty"),
    (SOURCE | {"tasks.max": "x"}, "tasks.max", "Invalid value x for configuration tasks.max: Not a number of type INT"),
    (SOURCE | {"tasks.max": "0"}, "tasks.max", "Value must be at least 1"),
    (SOURCE | {"topics": "t"}, "topics", "this setting is not known"),
    (SOURCE | {"transforms": "a", "transforms.a.type": "X"}, "transforms", "tailrace.Sink, which have sql"),
    (SOURCE | {"transforms": "a", "transforms.a.type": "X"}, "transforms.a.type", "not supported"),
    (SOURCE | {"offsets.storage.topic": "o"}, "offsets.storage.topic", "the checkpoint of the connector"),
    (SOURCE | {"transaction.boundary": "connector"}, "transaction.boundary", "only poll and interval can be used"),
    (
        SOURCE | {"transaction.boundary.interval.ms": "5"},
        "transaction.boundary.interval.ms",
        "needs transaction.boundary",
    ),
    (SOURCE | {"exactly.once.support": "maybe"}, "exactly.once.support", "REQUESTED, REQUIRED"),
    (SOURCE | {"value.converter": "Proto"}, "value.converter", "there is no converter Proto"),
    (SOURCE | {"value.converter": "ByteArrayConverter"}, "value.converter", "bytes is not possible for the values"),
    (
        SOURCE | {"value.converter.schemas.enable": "false"},
        "value.converter.schemas.enable",
        "it needs value.converter",
    ),
    (SOURCE | {"producer.override.sasl.m": "y"}, "producer.override.sasl.m", "no config of this name"),
    (SOURCE | {"producer.override.transactional.id": "y"}, "producer.override.transactional.id", "not allowed"),
    (SOURCE | {"producer.override.ack": "1"}, "producer.override.ack", "no config of this name"),
    (SOURCE | {"admin.override.retries": "1"}, "admin.override.retries", "not supported"),
    (SOURCE | {"topic.creation.default.partitions": "0"}, "topic.creation.default.partitions", "must be positive"),
    (
        SOURCE | {"topic.creation.default.partitions": "1"},
        "topic.creation.default.replication.factor",
        "the group default needs it",
    ),
    (SINK | {"topics": ""}, "topics", "Must configure one of topics or topics.regex"),
    (SINK | {"topics.regex": "a.*"}, "topics", "topics and topics.regex are mutually exclusive options"),
    (SINK | {"topics.regex": "a.*", "topics": ""}, "topics.regex", "name the topics in topics"),
    (
        SINK | {"errors.deadletterqueue.topic.name": "dead"},
        "errors.deadletterqueue.topic.name",
        "need errors.tolerance=all",
    ),
    (
        SINK | {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "connect-test"},
        "topics",
        "The DLQ topic 'connect-test' may not be included",
    ),
    (SINK | {"errors.tolerance": "all", "errors.log.enable": "true"}, "errors.log.enable", "not logged one by one"),
    (SINK | {"errors.retry.timeout": "5"}, "errors.retry.timeout", "restart by themselves"),
    (
        SINK | {"consumer.override.auto.offset.reset": "none"},
        "consumer.override.auto.offset.reset",
        "earliest or latest",
    ),
]


@pytest.mark.parametrize(("config", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(config: dict[str, str], name: str, words: str) -> None:
    found = problems(config)
    assert any(words in message for message in found.get(name, [])), found


def test_all_problems_are_reported_together() -> None:
    found = problems({"connector.class": "FileStreamSink", "tasks.max": "x", "fiel": "a"})
    assert set(found) == {"tasks.max", "fiel", "file", "topics", "topics.regex"}


def test_the_name_of_a_flow_has_only_letters_that_folders_can_have() -> None:
    assert translate("my shop/ä", SOURCE).documents[0]["name"] == "my_shop__"
    assert translate("-x", SOURCE).documents[0]["name"] == "c-x"
