"""confluent-kafka's client of registries, with users of the cluster."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.unit.web.secured import PASSWORD, SERVICE, secured_broker

from tailrace.testing import SchemaRegistry

LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with secured_broker() as broker:
        asyncio.run(broker.add_users(SERVICE, "writer", "reader"))
        asyncio.run(broker.allow("writer", "write", "topic", "orders"))
        asyncio.run(broker.allow("reader", "read", "topic", "orders"))
        with SchemaRegistry(broker.address, client=broker.client(), cluster_users=True) as registry:
            yield registry.url


def client(url: str, user: str, password: str = PASSWORD) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url, "basic.auth.user.info": f"{user}:{password}", "max.retries": 0})


def test_a_producer_registers_and_a_consumer_reads(url: str) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    with client(url, "writer") as writer, client(url, "reader") as reader:
        data = AvroSerializer(writer, LONG)({"a": 7}, context)
        assert AvroDeserializer(reader)(data, context) == {"a": 7}
        assert reader.get_subjects() == ["orders-value"]


def test_what_a_user_may_not_do_is_an_error(url: str) -> None:
    with client(url, "reader") as reader, pytest.raises(SchemaRegistryError) as denied:
        reader.register_schema("orders-value", Schema(LONG, "AVRO"))
    assert (denied.value.http_status_code, denied.value.error_code) == (403, 40301)
    assert denied.value.error_message == "User is denied operation Write on Topic: orders"


def test_a_wrong_password_is_an_error(url: str) -> None:
    with client(url, "reader", "wrong") as reader, pytest.raises(SchemaRegistryError) as refused:
        reader.get_subjects()
    assert (refused.value.http_status_code, refused.value.error_code) == (401, 401)
