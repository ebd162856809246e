"""confluent-kafka's serializers and its client of registries, with Tailrace's registry and beside Tailrace's codecs."""

import asyncio
import inspect
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializer,
    AsyncAvroSerializer,
    AvroDeserializer,
    AvroSerializer,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import (
    AsyncJSONDeserializer,
    AsyncJSONSerializer,
    JSONDeserializer,
    JSONSerializer,
)
from confluent_kafka.schema_registry.protobuf import (
    AsyncProtobufDeserializer,
    AsyncProtobufSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.type import money_pb2, postal_address_pb2  # type: ignore[import-untyped]

from tailrace.schema import AvroCodec, JsonCodec, ProtobufCodec, Registry
from tailrace.testing import SchemaRegistry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "View",
        "namespace": "shop",
        "fields": [
            {"name": "user", "type": "long"},
            {"name": "page", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "map", "values": "double"}},
        ],
    }
)
JSON = '{"title": "View", "type": "object", "properties": {"user": {"type": "integer"}}, "required": ["user"]}'
LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
STRING = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture(scope="module")
def url(broker_bootstrap: str) -> Iterator[str]:
    with SchemaRegistry(broker_bootstrap, topic=f"_schemas_{uuid.uuid4().hex[:8]}") as registry:
        yield registry.url


@pytest.fixture
def theirs(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


@pytest.fixture
def ours(url: str) -> Iterator[Registry]:
    with Registry(url) as registry:
        yield registry


@pytest.fixture
def topic() -> str:
    return f"registry-{uuid.uuid4().hex[:8]}"


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


# --- serializers


def test_avro(theirs: SchemaRegistryClient, ours: Registry, topic: str) -> None:
    value = {"user": 7, "page": "/docs", "tags": {"a": 0.5}}
    codec, context = AvroCodec(ours, topic, schema=AVRO), value_of(topic)
    written = AvroSerializer(theirs, AVRO)(value, context)
    assert codec.encode(value) == written
    assert AvroCodec(ours, topic).decode(written) == value
    assert AvroDeserializer(theirs)(codec.encode(value), context) == value


def test_json(theirs: SchemaRegistryClient, ours: Registry, topic: str) -> None:
    value = {"user": 7, "page": "é"}
    codec, context = JsonCodec(ours, topic, schema=JSON), value_of(topic)
    assert JsonCodec(ours, topic).decode(JSONSerializer(JSON, theirs)(value, context)) == value
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(codec.encode(value), context) == value
    assert ours.versions(f"{topic}-value") == [1]


@pytest.mark.parametrize(
    "message",
    [
        money_pb2.Money(currency_code="EUR", units=3),
        postal_address_pb2.PostalAddress(region_code="NL", address_lines=["a", "b"]),
    ],
)
def test_protobuf(theirs: SchemaRegistryClient, ours: Registry, topic: str, message: Any) -> None:
    context, options = value_of(topic), {"use.deprecated.format": False}
    codec = ProtobufCodec(ours, topic, message=type(message))
    written = ProtobufSerializer(type(message), theirs, options)(message, context)
    assert codec.encode(message) == written
    assert codec.decode(written) == message
    assert ProtobufCodec(ours, topic).decode(written).SerializeToString() == message.SerializeToString()
    assert ProtobufDeserializer(type(message), options)(codec.encode(message), context) == message
    assert ours.versions(f"{topic}-value") == [1]


def make_message() -> Any:
    """Return a message that is not among those that confluent-kafka has in its pool from the start."""
    file = descriptor_pb2.FileDescriptorProto(name="view.proto", package="shop", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="View").field.add(
        name="user", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL, json_name="user"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.View"))


VIEW = make_message()
ASYNC_CASES = [
    (
        lambda client: AsyncAvroSerializer(client, AVRO),
        AsyncAvroDeserializer,
        lambda registry, topic: AvroCodec(registry, topic, schema=AVRO),
        {"user": 1, "page": "a", "tags": {"x": 0.5}},
    ),
    (
        lambda client: AsyncJSONSerializer(JSON, client),
        lambda client: AsyncJSONDeserializer(JSON, schema_registry_client=client),
        lambda registry, topic: JsonCodec(registry, topic, schema=JSON),
        {"user": 1},
    ),
    (
        lambda client: AsyncProtobufSerializer(VIEW, client, {"use.deprecated.format": False}),
        lambda client: AsyncProtobufDeserializer(VIEW, {"use.deprecated.format": False}, client),
        lambda registry, topic: ProtobufCodec(registry, topic, message=VIEW),
        VIEW(user=7),
    ),
]


@pytest.mark.parametrize(
    ("make_serializer", "make_deserializer", "make_codec", "value"), ASYNC_CASES, ids=["avro", "json", "protobuf"]
)
def test_their_serializers_for_asyncio(
    make_serializer: Any, make_deserializer: Any, make_codec: Any, value: Any, url: str, ours: Registry, topic: str
) -> None:
    codec, context = make_codec(ours, topic), value_of(topic)

    async def use() -> tuple[bytes, Any]:
        # Each has a client of its own: a client keeps the text in the answer to a registration, from any registry, and
        # a deserializer of Protobuf takes it for a descriptor.
        async with AsyncSchemaRegistryClient({"url": url}) as first, AsyncSchemaRegistryClient({"url": url}) as second:
            serializer, deserializer = await make_serializer(first), await make_deserializer(second)
            return await serializer(value, context), await deserializer(codec.encode(value), context)

    written, read = asyncio.run(use())
    assert (codec.decode(written), read) == (value, value)
    assert ours.versions(f"{topic}-value") == [1]


def test_a_reader_of_theirs_takes_our_newest_schema(theirs: SchemaRegistryClient, ours: Registry, topic: str) -> None:
    first = AvroCodec(ours, topic, schema=LONG).encode({"a": 5})
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "int", "default": 9}]
    AvroCodec(ours, topic, schema=json.dumps({"type": "record", "name": "R", "fields": fields})).encode(
        {"a": 1, "b": 2}
    )
    newest = AvroDeserializer(theirs, conf={"use.latest.version": True})
    assert newest(first, value_of(topic)) == {"a": 5, "b": 9}


# --- the client


class Recorder:
    """A client that notes which of its methods are called."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.called.add(name)
        found: Callable[..., Any] = getattr(self._client, name)
        return found


ASSOCIATIONS = {"create_association", "delete_associations", "get_associations_by_resource_name"}
"""Methods with tests of their own, in the tests of the registry's HTTP interface."""

WITHOUT_REQUEST = {"new_client", "config", "close"}


def test_every_method_of_their_client(theirs: SchemaRegistryClient, topic: str) -> None:
    client = Recorder(theirs)
    use_all(client, topic)
    assert public_methods(SchemaRegistryClient) - client.called == ASSOCIATIONS | WITHOUT_REQUEST


def test_every_method_of_their_client_for_asyncio(url: str, topic: str) -> None:
    with asyncio.Runner() as runner:
        inner = AsyncSchemaRegistryClient({"url": url})
        client = Recorder(Awaited(inner, runner))
        use_all(client, topic)
        runner.run(inner.aclose())
    without_request = WITHOUT_REQUEST - {"close"} | {"aclose"}
    assert public_methods(AsyncSchemaRegistryClient) - client.called == ASSOCIATIONS | without_request


class Awaited:
    """A client for asyncio as one that waits, so that one list of calls serves both."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            found = method(*arguments, **keywords)
            return self._runner.run(found) if inspect.iscoroutine(found) else found

        return call


def public_methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def use_all(client: Any, topic: str) -> None:
    schemas(client, topic)
    versions(client, topic)
    compatibility(client, topic)
    modes(client, topic)
    deletions(client, topic)


def schemas(client: Any, topic: str) -> None:
    metadata = Metadata(tags=None, properties=MetadataProperties({"owner": topic}), sensitive=None)
    registered = client.register_schema_full_response(topic, Schema(LONG, metadata=metadata))
    schema_id = client.register_schema(topic, Schema(LONG, metadata=metadata))
    assert (registered.schema_id, registered.version) == (schema_id, 1)
    client.clear_caches()
    client.clear_latest_caches()
    assert client.get_schema(schema_id).schema_str == LONG
    assert client.get_schema_by_guid(registered.guid).schema_str == LONG
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert client.get_subjects_by_schema_id(schema_id) == [topic]
    assert [(each.subject, each.version) for each in client.get_schema_versions(schema_id)] == [(topic, 1)]
    assert client.lookup_schema(topic, Schema(LONG, metadata=metadata)).version == 1


def versions(client: Any, topic: str) -> None:
    assert topic in client.get_subjects()
    assert client.get_subjects(subject_prefix=topic) == [topic]
    assert client.get_versions(topic) == [1]
    assert client.get_version(topic, 1).schema.schema_str == LONG
    assert client.get_latest_version(topic).version == 1
    assert client.get_latest_with_metadata(topic, {"owner": topic}).version == 1
    assert "." in client.get_contexts()
    text = '{"type":"record","name":"Outer","fields":[{"name":"r","type":"R"}]}'
    outer = client.register_schema(f"{topic}-outer", Schema(text, references=[SchemaReference("R", topic, 1)]))
    assert client.get_referenced_by(topic, 1) == [outer]


def compatibility(client: Any, topic: str) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.set_compatibility(topic, "FULL")["compatibility"] == "FULL"
    assert client.get_compatibility(topic) == "FULL"
    assert client.test_compatibility(topic, Schema(LONG))
    assert not client.test_compatibility(topic, Schema(STRING))
    assert not client.test_compatibility_all_versions(topic, Schema(STRING))
    client.set_config(topic, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert client.get_config(topic).compatibility_level == ConfigCompatibilityLevel.NONE
    assert client.test_compatibility(topic, Schema(STRING))
    client.delete_config(topic)


def modes(client: Any, topic: str) -> None:
    assert client.get_global_mode() == client.update_global_mode("READWRITE") == "READWRITE"
    assert client.update_mode(topic, "READONLY") == client.get_mode(topic) == "READONLY"
    with pytest.raises(SchemaRegistryError) as raised:
        client.register_schema(topic, Schema('"int"'))
    assert raised.value.error_code == 42205
    assert client.delete_mode(topic) == "READONLY"


def deletions(client: Any, topic: str) -> None:
    assert client.delete_subject(f"{topic}-outer") == [1]
    assert client.delete_subject(f"{topic}-outer", permanent=True) == [1]
    assert client.delete_version(topic, 1) == 1
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_version(topic, 1)
    assert raised.value.error_code in (40401, 40402)
