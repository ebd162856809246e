"""Confluent's S3 sink as pipelines."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.connect.plugin.loading import document, load, problems

from tailrace.connect.plugin.translation import translate

SINK = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "1",
    "topics": "s3_topic",
    "s3.region": "us-west-2",
    "s3.bucket.name": "lake",
    "flush.size": "1000",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.DefaultPartitioner",
    "schema.compatibility": "NONE",
    "tailrace.schema": "id bigint",
}
STORE = {
    "store.url": "http://minio.example:9000",
    "aws.access.key.id": "key",
    "aws.secret.access.key": "very-secret",
}


def test_values_go_to_objects_below_the_topic(tmp_path: Path) -> None:
    assert document(SINK | STORE | {"behavior.on.null.values": "ignore"}, tmp_path) == {
        "name": "shop",
        "source": {
            "connector": "topic",
            "name": "s3_topic",
            "schema": "id bigint",
            "options": {"maxRecordsPerPartition": "1000", "minOffsetsPerTrigger": "1000", "maxTriggerDelay": "36500d"},
            "tombstones": "drop",
        },
        "sink": {
            "connector": "s3",
            "format": "parquet",
            "compression": "snappy",
            "options": {
                "region": "us-west-2",
                "endpoint": "http://minio.example:9000",
                "access_key_id": "key",
                "secret_access_key": "very-secret",
            },
            "url": "s3://lake/topics/s3_topic",
        },
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"format.class": "io.confluent.connect.s3.format.json.JsonFormat", "s3.compression.type": "gzip"},
            {"format": "json", "compression": "gzip"},
        ),
        ({"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}, {"format": "avro", "compression": "none"}),
        ({"parquet.codec": "zstd"}, {"compression": "zstd"}),
        ({"topics.dir": "raw/events"}, {"url": "s3://lake/raw/events/s3_topic"}),
        (
            {"s3.path.style.access.enabled": "false"},
            {"options": {"region": "us-west-2", "virtual_hosted_style_request": "true"}},
        ),
    ],
)
def test_settings_are_arguments_of_the_sink(more: dict[str, str], expected: dict[str, Any], tmp_path: Path) -> None:
    sink = document(SINK | more, tmp_path)["sink"]
    assert {name: sink[name] for name in expected} == expected


def test_objects_are_written_after_an_interval(tmp_path: Path) -> None:
    rotation = {"rotate.interval.ms": "60000", "rotate.schedule.interval.ms": "30000"}
    assert document(SINK | rotation, tmp_path)["source"]["options"]["maxTriggerDelay"] == "30000ms"


def test_each_topic_has_a_flow(tmp_path: Path) -> None:
    flows = load(translate("shop", SINK | {"topics": "a,b"}), tmp_path)
    assert [flow.name for flow in flows] == ["shop.a", "shop.b"]


REFUSED: list[tuple[dict[str, str], str, str]] = [
    ({"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"}, "format.class", "no such format"),
    ({"flush.size": "0"}, "flush.size", "Value must be at least 1"),
    (
        {"partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner"},
        "partitioner.class",
        "tailrace.Sink with files",
    ),
    ({"path.format": "'year'=YYYY"}, "path.format", "there are no folders"),
    ({"s3.compression.type": "gzip"}, "s3.compression.type", "objects of the format parquet do not use it"),
    ({"parquet.codec": "lz4"}, "parquet.codec", "only none and gzip and snappy and zstd can be used"),
    ({"behavior.on.null.values": "write"}, "behavior.on.null.values", "only records with a value"),
    ({"store.kafka.keys": "true"}, "store.kafka.keys", "source.include=key"),
    ({"s3.object.tagging": "true"}, "s3.object.tagging", "only false can be used"),
    ({"tailrace.schema": ""}, "tailrace.schema", "the columns of JSON values are needed"),
    ({"s3.bucket.name": ""}, "s3.bucket.name", "String must be non-empty"),
]


@pytest.mark.parametrize(("more", "name", "words"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(more: dict[str, str], name: str, words: str) -> None:
    found = problems(SINK | STORE | more)
    assert any(words in message for message in found.get(name, [])), found
    assert "very-secret" not in str(found)
