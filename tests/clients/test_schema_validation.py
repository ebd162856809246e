"""Producers and a topic with schema validation: serializers pass unchanged, and other bytes are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.certificate import make_certificate
from tests.clients.conftest import TARGET

import tailrace
from tailrace.testing import Broker, SchemaRegistry

pytestmark = pytest.mark.skipif(TARGET == "kafka", reason="Apache Kafka has no schema validation")

SCHEMA = '{"type": "record", "name": "View", "fields": [{"name": "page", "type": "string"}]}'
ROW = {"page": "/start"}


class Place:
    """A broker that asks a registry, which stores its schemas in a broker of its own."""

    def __init__(self, broker: Broker, client: SchemaRegistryClient) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.broker = broker
        self.client = client

    def serialize(self, topic: str, schema: str = SCHEMA) -> bytes:
        value = AvroSerializer(self.client, schema)(ROW, SerializationContext(topic, MessageField.VALUE))
        assert isinstance(value, bytes)
        return value


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Broker() as store, SchemaRegistry(store.bootstrap_servers, topic="_schemas_validation") as registry:
        with (
            Broker({"confluent.schema.registry.url": registry.url}) as broker,
            SchemaRegistryClient({"url": registry.url}) as client,
        ):
            yield Place(broker, client)


def make_topic(place: Place, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    configs = {"confluent.value.schema.validation": "true"}
    for made in admin.create_topics([NewTopic(name, 1, config=configs)]).values():
        made.result(60)
    return name


def send(place: Place, topic: str, *values: bytes | None, **options: str) -> list[KafkaError | None]:
    """The outcome of each record in librdkafka's producer."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": "100", **options})
    for value in values:
        producer.produce(topic, value, b"key", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(60) == 0
    return outcomes


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_serializer_writes_is_stored(place: Place, codec: str) -> None:
    topic = make_topic(place, f"accepted-{codec}")
    value = place.serialize(topic)
    assert send(place, topic, value, None, value, **{"compression.type": codec}) == [None] * 3
    assert [record.value for record in place.broker.consume(topic)] == [value, None, value]


@pytest.mark.parametrize("is_idempotent", ["true", "false"])
def test_other_bytes_are_refused(place: Place, is_idempotent: str) -> None:
    topic = make_topic(place, f"refused-{is_idempotent}")
    good = place.serialize(topic)
    (error,) = send(place, topic, b'{"page": "/start"}', **{"enable.idempotence": is_idempotent})
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    assert send(place, topic, good, **{"enable.idempotence": is_idempotent}) == [None]
    assert [record.value for record in place.broker.consume(topic)] == [good]


def test_a_schema_of_another_topic_is_refused_until_it_is_registered(place: Place) -> None:
    topic = make_topic(place, "of-another-topic")
    schema = SCHEMA.replace("View", "Click")
    stranger = place.serialize("elsewhere", schema)
    (error,) = send(place, topic, stranger)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    topic = make_topic(place, "of-its-own-topic")
    assert place.serialize(topic, schema) == stranger, "one schema has one id"
    assert send(place, topic, stranger) == [None]


def test_the_own_client_names_the_record_the_id_and_the_subject(place: Place) -> None:
    topic = make_topic(place, "own")
    with tailrace.Producer(place.bootstrap) as producer:
        producer.send(topic, place.serialize(topic)).result(60)
        with pytest.raises(tailrace.ApiError, match=r"record 0: the schema id 999 .* subject own-value") as caught:
            producer.send(topic, b"\x00\x00\x00\x03\xe7x").result(60)
    assert caught.value.code is tailrace.ErrorCode.INVALID_RECORD


def test_a_registry_with_a_private_certificate_and_users(tmp_path: Path) -> None:
    """A broker could not be told which certificates to trust, so HTTPS worked only with those of the system."""
    make_certificate(tmp_path, "authority", "DNS:authority")
    make_certificate(tmp_path, "registry", "IP:127.0.0.1", "authority")
    authority = str(tmp_path / "authority-ca.pem")
    with (
        Broker() as store,
        SchemaRegistry(
            store.bootstrap_servers,
            users={"ann": "secret"},
            certificate=tmp_path / "registry-ca.pem",
            key=tmp_path / "registry-key.pem",
        ) as registry,
        Broker(
            {
                "confluent.schema.registry.url": registry.url,
                "confluent.basic.auth.user.info": "ann:secret",
                "confluent.ssl.truststore.location": authority,
            }
        ) as broker,
        SchemaRegistryClient(
            {"url": registry.url, "basic.auth.user.info": "ann:secret", "ssl.ca.location": authority}
        ) as client,
    ):
        assert registry.url.startswith("https://")
        place = Place(broker, client)
        topic = make_topic(place, "secure")
        good = place.serialize(topic)
        assert send(place, topic, good) == [None]
        (error,) = send(place, topic, b"\x00\x00\x00\x03\xe7x")
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD
        assert [record.value for record in broker.consume(topic)] == [good]


def test_validation_without_a_registry_is_refused() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topic = NewTopic("t", 1, config={"confluent.value.schema.validation": "true"})
        with pytest.raises(KafkaException, match=r"set confluent\.schema\.registry\.url") as caught:
            admin.create_topics([topic])["t"].result(60)
        assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
