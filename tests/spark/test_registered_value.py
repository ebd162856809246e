"""Pipelines over values whose schemas are in a registry, between confluent-kafka's own serializers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline

from tailrace import Producer
from tailrace.schema.registry import Registry
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka is not installed")
VERSION_1 = """{"type": "record", "name": "Order", "fields": [
    {"name": "user", "type": "string"}, {"name": "cents", "type": "int"}]}"""
VERSION_2 = """{"type": "record", "name": "Order", "fields": [
    {"name": "user", "type": "string"}, {"name": "cents", "type": "long"},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
    {"name": "coupons", "type": {"type": "array", "items": "string"}, "default": ["none"]}]}"""
VERSION_3 = """{"type": "record", "name": "Order", "fields": [
    {"name": "user", "type": "string"}, {"name": "cents", "type": "long"},
    {"name": "paid", "type": "boolean", "default": false}]}"""

PIPELINE = """
from pyspark.sql.functions import col, expr, size
from tailrace.pipeline import flow, topic

@flow(source=topic({source!r}, value="avro", registry={url!r}, include=("partition",)),
      sink=topic({sink!r}, value="avro", registry={url!r}, key="user"){errors})
def totals(orders):
    return orders.withColumn("euros", (col("cents") / 100).cast("decimal(12,2)")).drop("cents", "partition")

@flow(source=topic({source!r}, value="avro", registry={url!r}),
      sink=topic({json!r}, value="json", registry={url!r}){errors})
def texts(orders):
    return orders
"""


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[str]:
    """The URL of a registry."""
    from tailrace.testing.registry import SchemaRegistry

    with SchemaRegistry(broker.bootstrap_servers) as running:
        yield running.url


@pytest.fixture
def run_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[[str], PipelineRun]:
    """Runs the text of a file over what is there now."""

    def run(text: str) -> PipelineRun:
        path = tmp_path / "pipe.py"
        path.write_text(text)
        return run_pipeline(spark, broker, path)

    return run


def produce(broker: Broker, url: str, topic: str, schema: str, *rows: dict[str, Any]) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    with SchemaRegistryClient({"url": url}) as client, Producer(broker.bootstrap_servers) as producer:
        serialize = AvroSerializer(client, schema)
        for row in rows:
            producer.send(topic, serialize(row, SerializationContext(topic, MessageField.VALUE)))


def consume(broker: Broker, url: str, topic: str, kind: Any = None) -> list[tuple[bytes | None, dict[str, Any]]]:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(topic, MessageField.VALUE)
    found = broker.consume(topic, [0])
    with SchemaRegistryClient({"url": url}) as client:
        deserialize = AvroDeserializer(client) if kind is None else kind(None, schema_registry_client=client)
        return [(record.key, deserialize(record.value, context)) for record in found if record.value is not None]


def versions(url: str, topic: str) -> list[int]:
    with Registry(url) as registry:
        return registry.versions(f"{topic}-value")


@pytest.mark.slow
def test_values_of_two_versions_are_read_with_the_newest_and_written_with_a_derived_schema(
    run_once: Callable[[str], PipelineRun], broker: Broker, registry: str, new_topic: Callable[..., str]
) -> None:
    source = new_topic()
    sink = f"{source}-totals"
    produce(broker, registry, source, VERSION_1, {"user": "ann", "cents": 150}, {"user": "bob", "cents": 2})
    produce(broker, registry, source, VERSION_2, {"user": "cid", "cents": 5, "at": 1_000, "coupons": []})
    names = {"source": source, "sink": sink, "json": f"{source}-json", "url": registry}
    text = PIPELINE.format(errors="", **names)
    run_once(text)
    rows = dict(consume(broker, registry, sink))
    assert {key: (str(row["euros"]), row["coupons"]) for key, row in rows.items()} == {
        b"ann": ("1.50", ["none"]),
        b"bob": ("0.02", ["none"]),
        b"cid": ("0.05", []),
    }
    assert (rows[b"ann"]["at"], rows[b"cid"]["at"].timestamp()) == (None, 1.0)
    assert versions(registry, sink) == [1]
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    texts = {row["user"]: row for _, row in consume(broker, registry, names["json"], JSONDeserializer)}
    assert texts["ann"] == {"user": "ann", "cents": 150, "coupons": ["none"]}
    assert texts["cid"] == {"user": "cid", "cents": 5, "at": "1970-01-01T00:00:01.000Z", "coupons": []}

    # A newer schema without `at` and `coupons`: the flow keeps its schema and fills them with defaults.
    produce(broker, registry, source, VERSION_3, {"user": "dan", "cents": 7, "paid": True})
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(source, b"no frame")
    with pytest.raises(FlowError, match=rf"flow \w+: {source}-0 offset 4: not a valid Avro value"):
        run_once(text)
    run_once(PIPELINE.format(errors=", errors='skip'", **names))
    assert dict(consume(broker, registry, sink))[b"dan"]["coupons"] == ["none"]
    assert versions(registry, sink) == [1]
