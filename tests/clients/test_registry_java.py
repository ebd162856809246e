"""Confluent's serializers and Connect converters for Java, with Tailrace's registry and beside the codecs of Python.

Java reads what Tailrace's codecs and confluent-kafka write, and they read what Java writes.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from bench.cache import Unavailable
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict, ParseDict
from google.type import money_pb2  # type: ignore[import-untyped]
from tests.clients.serdes import VARIABLE, JavaError, Serdes, confluent_classpath

from tailrace.schema import AvroCodec, JsonCodec, NewSchema, ProtobufCodec, Reference, Registry, SchemaType
from tailrace.testing import SchemaRegistry

NAMES_OF_JAVA = "io.confluent.kafka.serializers.subject."
STRATEGIES = {
    "topic": ("TopicNameStrategy", topic_subject_name_strategy),
    "record": ("RecordNameStrategy", record_subject_name_strategy),
    "topic-record": ("TopicRecordNameStrategy", topic_record_subject_name_strategy),
}
LATEST = {"auto.register.schemas": False, "use.latest.version": True, "latest.compatibility.strict": False}


def record(name: str, /, **types: Any) -> str:
    """Return an Avro record; a tuple is a type and its default."""
    fields = [
        {"name": each, "type": kind[0], "default": kind[1]} if isinstance(kind, tuple) else {"name": each, "type": kind}
        for each, kind in types.items()
    ]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields})


@dataclass(frozen=True)
class Format:
    """A schema and a value of it: as Python has it, and the parts of a request to Java that differ from that."""

    name: str
    record: str
    schema: str
    value: dict[str, Any]
    java: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, str] = field(default_factory=dict)

    def request(self, **members: Any) -> dict[str, Any]:
        """Return a request to write the value."""
        return {"format": self.name, "schema": self.schema, "value": self.value, **self.java, **members}


PAGE = {"user": 7, "page": "/é", "tags": {"a": 0.5}}
AVRO = Format(
    "AVRO",
    "shop.View",
    record("View", user="long", page=(["null", "string"], None), tags={"type": "map", "values": "double"}),
    PAGE,
    {"value": {**PAGE, "page": {"string": "/é"}}},
)
JSON = Format(
    "JSON",
    "View",
    '{"title":"View","type":"object","properties":{"user":{"type":"integer"},"page":{"type":"string"}}}',
    {"user": 7, "page": "/é"},
)
MONEY = Format(
    "PROTOBUF",
    "google.type.Money",
    "",
    {"currency_code": "EUR", "units": "3", "nanos": 5},
    {"class": "com.google.type.Money"},
    {"specific.protobuf.value.type": "com.google.type.Money"},
)
FORMATS = [AVRO, JSON, MONEY]


class Place:
    """A registry with Java, Tailrace's codecs and confluent-kafka, and a topic."""

    def __init__(self, java: Serdes, ours: Registry, theirs: SchemaRegistryClient, topic: str) -> None:
        self.java, self.ours, self.theirs, self.topic = java, ours, theirs, topic

    def write(self, side: str, form: Format, strategy: str = "topic") -> bytes:
        """Return the value of a format as one side writes it."""
        java_name, their_strategy = STRATEGIES[strategy]
        if side == "java":
            config = {"value.subject.name.strategy": f"{NAMES_OF_JAVA}{java_name}"}
            return self.by_java(form.request(config=config))
        if side == "ours":
            written = self.codec(form, subject_name=strategy).encode(self._in_python(form))
        else:
            written = self._serializer(form, {"subject.name.strategy": their_strategy})(
                self._in_python(form), self._context()
            )
        assert isinstance(written, bytes)
        return written

    def read(self, side: str, form: Format, data: bytes) -> Any:
        """Return the value that one side reads."""
        if side == "java":
            return self.from_java(form.name, data, config=form.reader)
        value = self.codec(form).decode(data) if side == "ours" else self._deserializer(form)(data, self._context())
        return MessageToDict(value, preserving_proto_field_name=True) if form is MONEY else value

    def by_java(self, request: dict[str, Any], do: str = "serialize") -> bytes:
        return bytes.fromhex(self.java.ask(do, topic=self.topic, **request)["bytes"])

    def from_java(self, form: str, data: bytes | None, do: str = "deserialize", **members: Any) -> Any:
        content = None if data is None else data.hex()
        return self.java.ask(do, topic=self.topic, format=form, bytes=content, **members)["value"]

    def codec(self, form: Format, **options: Any) -> AvroCodec | JsonCodec | ProtobufCodec:
        if form is MONEY:
            return ProtobufCodec(self.ours, self.topic, message=money_pb2.Money, **options)
        return (AvroCodec if form is AVRO else JsonCodec)(self.ours, self.topic, schema=form.schema, **options)

    def _in_python(self, form: Format) -> Any:
        return ParseDict(form.value, money_pb2.Money()) if form is MONEY else form.value

    def _serializer(self, form: Format, config: dict[str, Any]) -> Any:
        if form is AVRO:
            return AvroSerializer(self.theirs, form.schema, conf=config)
        if form is JSON:
            return JSONSerializer(form.schema, self.theirs, conf=config)
        return ProtobufSerializer(money_pb2.Money, self.theirs, {"use.deprecated.format": False, **config})

    def _deserializer(self, form: Format) -> Any:
        if form is AVRO:
            return AvroDeserializer(self.theirs)
        if form is JSON:
            return JSONDeserializer(form.schema, schema_registry_client=self.theirs)
        return ProtobufDeserializer(money_pb2.Money, {"use.deprecated.format": False})

    def _context(self) -> SerializationContext:
        return SerializationContext(self.topic, MessageField.VALUE)


@pytest.fixture(scope="module")
def url(broker_bootstrap: str) -> Iterator[str]:
    with SchemaRegistry(broker_bootstrap, topic=f"_schemas_{uuid.uuid4().hex[:8]}") as registry:
        yield registry.url


@pytest.fixture(scope="module")
def java(url: str, broker_bootstrap: str) -> Iterator[Serdes]:
    try:
        program = Serdes(url, broker_bootstrap)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with program:
        yield program


@pytest.fixture
def place(java: Serdes, url: str) -> Iterator[Place]:
    with Registry(url) as ours, SchemaRegistryClient({"url": url}) as theirs:
        yield Place(java, ours, theirs, f"java-{uuid.uuid4().hex[:8]}")


def ids(form: Format) -> str:
    return form.name.lower()


def test_without_confluent_s_classes_the_reason_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(Unavailable, match=f"set {VARIABLE}"):
        confluent_classpath()
    monkeypatch.setenv(VARIABLE, "no/such/folder")
    with pytest.raises(Unavailable, match="no/such/folder"):
        confluent_classpath()


# --- values


@pytest.mark.parametrize("form", FORMATS, ids=ids)
@pytest.mark.parametrize("side", ["ours", "theirs", "java"])
def test_java_reads_what_others_write_and_they_read_what_java_writes(place: Place, form: Format, side: str) -> None:
    assert place.read(side, form, place.write("java", form)) == form.value
    assert place.read("java", form, place.write(side, form)) == form.value


@pytest.mark.parametrize("form", FORMATS, ids=ids)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_side_registers_one_schema_under_one_subject(place: Place, form: Format, strategy: str) -> None:
    """Java gets the file of Money from the registry, because its own release of the file has one more option."""
    subject = {
        "topic": f"{place.topic}-value",
        "record": form.record,
        "topic-record": f"{place.topic}-{form.record}",
    }[strategy]
    written = [place.write(side, form, strategy) for side in ("ours", "theirs")]
    for_java = form if form is not MONEY else replace(form, schema=place.ours.latest(subject).text, java={})
    written.append(place.write("java", for_java, strategy))
    assert len({data[:5] for data in written}) == 1
    assert place.ours.versions(subject) == [1]
    if strategy != "record":
        assert place.ours.subjects(place.topic) == [subject]


def test_the_schema_of_a_class(place: Place) -> None:
    """Java derives the schema of JSON from a class; Python reads the value with it."""
    data = place.by_java({"format": "JSON", "class": "Serdes$View", "value": {"user": 7, "page": None}})
    assert JsonCodec(place.ours, place.topic).decode(data) == {"user": 7, "page": None}
    written = JsonCodec(place.ours, place.topic, use_latest=True).encode({"user": 8, "page": "/"})
    config = {"json.value.type": "Serdes$View", "json.fail.invalid.schema": True}
    assert place.from_java("JSON", written, config=config) == {"user": 8, "page": "/"}


def test_a_message_that_is_not_the_first_of_its_file(place: Place) -> None:
    schema = 'syntax = "proto3"; package shop; message A { message B { } message C { int32 c = 1; } } message D { }'
    members = {"format": "PROTOBUF", "schema": schema, "message": "shop.A.C", "value": {"c": 7}}
    codec = ProtobufCodec(place.ours, place.topic, schema=schema, message="shop.A.C")
    data = place.by_java(members)
    assert codec.encode({"c": 7}) == data
    assert codec.decode(data).c == 7
    assert place.from_java("PROTOBUF", data) == {"c": 7}


def test_keys(place: Place) -> None:
    request = AVRO.request(schema='"long"', value=7, is_key=True)
    codec = AvroCodec(place.ours, place.topic, schema='"long"', is_key=True)
    assert place.by_java(request) == codec.encode(7)
    assert place.from_java("AVRO", codec.encode(8), is_key=True) == 8
    assert place.ours.subjects(place.topic) == [f"{place.topic}-key"]


@pytest.mark.parametrize("form", FORMATS, ids=ids)
def test_null(place: Place, form: Format) -> None:
    """A null value has no frame and registers no schema, on every side."""
    assert place.java.ask("serialize", topic=place.topic, **form.request(value=None))["bytes"] is None
    assert place.codec(form).encode(None) is None
    assert place.from_java(form.name, None) is None
    assert place.ours.subjects(place.topic) == []


@pytest.mark.parametrize("form", FORMATS, ids=ids)
def test_through_a_topic(place: Place, form: Format, broker_bootstrap: str) -> None:
    """Java's producer and consumer, with a value and then a tombstone."""
    admin = AdminClient({"bootstrap.servers": broker_bootstrap})
    admin.create_topics([NewTopic(place.topic, 1)])[place.topic].result(60)
    for request in (form.request(), form.request(value=None)):
        place.java.ask("produce", topic=place.topic, **request)
    read = [
        place.java.ask("consume", topic=place.topic, format=form.name, config=form.reader, offset=offset)["value"]
        for offset in (0, 1)
    ]
    assert read == [form.value, None]


# --- references


@pytest.mark.parametrize(
    ("form", "name", "item", "order"),
    [
        ("AVRO", "shop.Item", record("Item", name="string"), record("Order", item="shop.Item")),
        (
            "JSON",
            "item.json",
            '{"type":"object","properties":{"name":{"type":"string"}}}',
            '{"title":"Order","type":"object","properties":{"item":{"$ref":"item.json"}}}',
        ),
        (
            "PROTOBUF",
            "item.proto",
            'syntax = "proto3"; package shop; message Item { string name = 1; }',
            'syntax = "proto3"; package shop; import "item.proto"; message Order { Item item = 1; }',
        ),
    ],
    ids=["avro", "json", "protobuf"],
)
def test_references(place: Place, form: str, name: str, item: str, order: str) -> None:
    """Java registers a schema with a reference to one that Python registered, and both write and read its values.

    Java's serializer of Protobuf looks for an imported file under the subject that has its name.
    """
    items = name if form == "PROTOBUF" else f"{place.topic}-items"
    place.ours.register(items, NewSchema(item, SchemaType(form)))
    request = {"format": form, "schema": order, "references": [{"name": name, "subject": items, "version": 1}]}
    schema_id = place.java.ask("register", subject=f"{place.topic}-value", **request)["id"]
    value = {"item": {"name": "é"}}
    codecs = {"AVRO": AvroCodec, "JSON": JsonCodec, "PROTOBUF": ProtobufCodec}
    codec = codecs[form](place.ours, place.topic, schema=order, references=[Reference(name, items, 1)])
    written, data = codec.encode(value), place.by_java({**request, "value": value, "config": LATEST})
    assert isinstance(written, bytes)
    assert int.from_bytes(data[1:5]) == int.from_bytes(written[1:5]) == schema_id
    read = codec.decode(data)
    assert (MessageToDict(read) if form == "PROTOBUF" else read) == value
    assert place.from_java(form, written) == value


# --- evolution


def test_avro_readers_with_another_version(place: Place) -> None:
    first = record("View", user="int")
    second = record("View", user="long", page=("string", "/"))
    old = place.by_java({"format": "AVRO", "schema": first, "value": {"user": 7}})
    codec = AvroCodec(place.ours, place.topic, schema=second)
    new = codec.encode({"user": 8, "page": "/docs"})
    assert codec.decode(old) == {"user": 7, "page": "/"}
    assert place.from_java("AVRO", old, config={"use.latest.version": True}) == {"user": 7, "page": "/"}
    assert place.from_java("AVRO", old, reader=second) == {"user": 7, "page": "/"}
    third = record("View", page="string")
    assert place.from_java("AVRO", new, reader=third) == {"page": "/docs"}
    assert place.ours.versions(f"{place.topic}-value") == [1, 2]


def test_protobuf_readers_with_another_version(place: Place) -> None:
    first = 'syntax = "proto3"; package shop; message View { int32 user = 1; }'
    second = 'syntax = "proto3"; package shop; message View { int32 user = 1; string page = 2; }'
    old = place.by_java({"format": "PROTOBUF", "schema": first, "value": {"user": 7}})
    codec = ProtobufCodec(place.ours, place.topic, schema=second)
    new = codec.encode({"user": 8, "page": "/docs"})
    assert codec.decode(old).page == ""
    assert place.from_java("PROTOBUF", new) == {"user": 8, "page": "/docs"}
    assert place.from_java("PROTOBUF", old, config={"use.latest.version": True}) == {"user": 7}
    assert MessageToDict(ProtobufCodec(place.ours, place.topic, schema=first).decode(new)) == {"user": 8}


def test_json_readers_with_another_version(place: Place) -> None:
    user, page = {"user": {"type": "integer"}}, {"page": {"type": "string"}}
    first = json.dumps({"type": "object", "properties": user, "additionalProperties": False})
    second = json.dumps({"type": "object", "properties": {**user, **page}, "additionalProperties": False})
    old = place.by_java({"format": "JSON", "schema": first, "value": {"user": 7}})
    codec = JsonCodec(place.ours, place.topic, schema=second)
    new = codec.encode({"user": 8, "page": "/docs"})
    assert codec.decode(old) == {"user": 7}
    latest = {"use.latest.version": True, "json.fail.invalid.schema": True}
    assert place.from_java("JSON", new, config=latest) == {"user": 8, "page": "/docs"}
    assert place.from_java("JSON", old, config=latest) == {"user": 7}


def test_java_is_told_what_is_incompatible(place: Place) -> None:
    place.by_java({"format": "AVRO", "schema": record("View", user="long"), "value": {"user": 7}})
    with pytest.raises(JavaError, match=r"READER_FIELD_MISSING_DEFAULT_VALUE.*error code: 409"):
        place.by_java({"format": "AVRO", "schema": record("View", page="string"), "value": {"page": "/"}})


def test_java_reads_a_protobuf_schema_whose_tags_it_changed(place: Place) -> None:
    subject = f"{place.topic}-value"
    schema = 'syntax = "proto3"; message View { int32 user = 1; }'
    place.ours.register(subject, NewSchema(schema, SchemaType.PROTOBUF))
    tags = [{"schemaEntity": {"entityPath": "View.user", "entityType": "sr_field"}, "tags": ["PII"]}]
    assert place.java.ask("tag", subject=subject, version="1", tagsToAdd=tags)["version"] == 2
    written = ProtobufCodec(place.ours, place.topic, use_latest=True).encode({"user": 7})
    assert isinstance(written, bytes)
    assert place.ours.version(subject, 2).id == int.from_bytes(written[1:5])
    assert place.from_java("PROTOBUF", written) == {"user": 7}


# --- Kafka Connect

ROW = {
    "type": "struct",
    "name": "shop.Row",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "note", "type": "string", "optional": True},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
        },
    ],
}
NULLABLE = {"optional.for.nullables": True}
"""Without it, the converter of Protobuf writes a null as the default of its type."""
PAYLOAD = {"id": 7, "note": None, "at": 1000, "price": "BNI="}
AT = datetime.fromtimestamp(1, UTC)
"""1000 ms after 1970 began, and the bytes of 1234 in base64: 12.34 with two decimals."""


@pytest.mark.parametrize("form", ["AVRO", "JSON", "PROTOBUF"])
def test_a_converter_reads_what_it_wrote(place: Place, form: str) -> None:
    request = {"format": form, "config": NULLABLE, "value": {"schema": ROW, "payload": PAYLOAD}}
    data = place.by_java(request, "from_connect")
    assert place.from_java(form, data, "to_connect", config=NULLABLE)["payload"] == PAYLOAD
    assert place.ours.versions(f"{place.topic}-value") == [1]


def test_avro_of_a_converter(place: Place) -> None:
    data = place.by_java({"format": "AVRO", "value": {"schema": ROW, "payload": PAYLOAD}}, "from_connect")
    value = {"id": 7, "note": None, "at": AT, "price": Decimal("12.34")}
    assert AvroCodec(place.ours, place.topic).decode(data) == value
    written = AvroCodec(place.ours, place.topic, use_latest=True).encode({**value, "note": "x"})
    assert place.from_java("AVRO", written, "to_connect")["payload"] == {**PAYLOAD, "note": "x"}


def test_json_of_a_converter(place: Place) -> None:
    data = place.by_java({"format": "JSON", "value": {"schema": ROW, "payload": PAYLOAD}}, "from_connect")
    value = JsonCodec(place.ours, place.topic).decode(data)
    assert value == PAYLOAD
    written = JsonCodec(place.ours, place.topic, use_latest=True).encode({**value, "note": "x"})
    assert place.from_java("JSON", written, "to_connect")["payload"] == {**PAYLOAD, "note": "x"}


def test_protobuf_of_a_converter(place: Place) -> None:
    request = {"format": "PROTOBUF", "config": NULLABLE, "value": {"schema": ROW, "payload": PAYLOAD}}
    data = place.by_java(request, "from_connect")
    value = ProtobufCodec(place.ours, place.topic).decode(data)
    assert (value.id, value.at.seconds, value.price.value) == (7, 1, b"\x04\xd2")
    codec = ProtobufCodec(place.ours, place.topic, use_latest=True)
    written = codec.encode({**MessageToDict(value), "id": "8"})
    assert place.from_java("PROTOBUF", written, "to_connect", config=NULLABLE)["payload"] == {**PAYLOAD, "id": 8}


@pytest.mark.parametrize("form", ["AVRO", "JSON", "PROTOBUF"])
def test_null_of_a_converter(place: Place, form: str) -> None:
    assert place.java.ask("from_connect", topic=place.topic, format=form, value=None)["bytes"] is None
    assert place.from_java(form, None, "to_connect") is None


def test_null_with_a_schema_of_a_json_converter(place: Place) -> None:
    """The converter of JSON Schema writes the null of an optional schema as a value."""
    value = {"schema": {**ROW, "optional": True}, "payload": None}
    data = place.by_java({"format": "JSON", "value": value}, "from_connect")
    assert data[5:] == b"null"
    assert JsonCodec(place.ours, place.topic).decode(data) is None
