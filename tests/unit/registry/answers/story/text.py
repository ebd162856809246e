"""Normalisation, formats and pages of lists."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
    get,
    json_schema,
    look_up,
    protobuf,
    put,
    record,
    reference,
    register,
    story,
)

UNORDERED_JSON = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
ORDERED_JSON = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "type": "object"}
UNORDERED_PROTO = (
    'import "google/protobuf/timestamp.proto"; message M { string b = 2; google.protobuf.Timestamp a = 1; }'
)
ORDERED_PROTO = 'import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp a = 1; string b = 2; }'


@story
def normalize() -> Iterator[Call]:
    """Texts that differ only in notation."""
    props = {"type": "record", "name": "P", "z": 1, "a": {"y": 1, "b": 2}, "fields": []}
    same_props = {"type": "record", "name": "P", "a": {"b": 2, "y": 1}, "z": 1, "fields": []}
    yield register("avro", avro(props))
    yield register("avro", avro(same_props))
    yield register("avro", avro(same_props), "?normalize=true")
    yield look_up("avro", avro(same_props), "?normalize=true")
    yield register("json", json_schema(UNORDERED_JSON))
    yield look_up("json", json_schema(ORDERED_JSON))
    yield look_up("json", json_schema(ORDERED_JSON), "?normalize=true")
    yield register("json", json_schema(ORDERED_JSON), "?normalize=true")
    yield register("json", json_schema(UNORDERED_JSON), "?normalize=true")
    yield register("protobuf", protobuf(UNORDERED_PROTO))
    yield look_up("protobuf", protobuf(ORDERED_PROTO))
    yield register("protobuf", protobuf(ORDERED_PROTO), "?normalize=true")
    yield look_up("protobuf", protobuf(UNORDERED_PROTO), "?normalize=true")
    yield get("/subjects/json/versions")
    yield get("/subjects/json/versions/latest")
    yield get("/subjects/protobuf/versions/latest")
    yield put("/config", {"normalize": True})
    yield register("by-config", json_schema(UNORDERED_JSON))
    yield look_up("by-config", json_schema(ORDERED_JSON))
    yield register("union", avro([{"type": "null"}, {"type": "int"}]))
    yield register(
        "names",
        avro(
            {
                "type": "record",
                "name": "R",
                "namespace": "n.s",
                "fields": [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["B", "A"]}}],
            }
        ),
    )


@story
def formats() -> Iterator[Call]:
    """Texts in the form that a client asks for."""
    yield register("base", avro({"type": "record", "name": "Base", "fields": []}))
    yield register("avro", record("U", {"references": [reference("Base", "base")]}, u="Base"))
    yield register(
        "json",
        json_schema(
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/definitions/a"}},
                "definitions": {"a": {"type": "string"}},
            }
        ),
    )
    option = 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { string tag = 50001; }'
    text = option + ' message M { string a = 1 [(tag) = "x"]; }'
    yield register("protobuf", protobuf(text))
    for form in ("", "default", "resolved", "serialized", "ignore_extensions", "SERIALIZED", "pretty"):
        for number in (2, 3, 4):
            yield get(f"/schemas/ids/{number}?format={form}")
    yield get("/schemas/ids/4/schema?format=serialized")
    yield get("/subjects/protobuf/versions/1?format=serialized")
    yield get("/subjects/protobuf/versions/1/schema?format=serialized")
    yield register("protobuf", protobuf(text), "?format=serialized")
    yield look_up("protobuf", protobuf(text), "?format=serialized")


@story
def pages() -> Iterator[Call]:
    """Offsets and limits of every list."""
    for name in ("a", "b", "c", "aa", "ab"):
        yield register(name, avro("int"))
    yield register("a", avro("long"))
    yield register("a", avro("float"))
    yield get("/subjects?offset=1")
    yield get("/subjects?limit=2")
    yield get("/subjects?offset=1&limit=2")
    yield get("/subjects?offset=9")
    yield get("/subjects?limit=0")
    yield get("/subjects?limit=-5")
    yield get("/subjects?offset=-1")
    yield get("/subjects?limit=x")
    yield get("/subjects?subjectPrefix=a")
    yield get("/subjects?subjectPrefix=a&offset=1&limit=1")
    yield get("/subjects?subjectPrefix=")
    yield get("/subjects/a/versions?offset=1")
    yield get("/subjects/a/versions?limit=1")
    yield get("/subjects/a/versions?offset=-1")
    yield get("/schemas?offset=1&limit=2")
    yield get("/schemas?limit=0")
    yield get("/schemas?offset=-1")
    yield get("/schemas?subjectPrefix=a&latestOnly=true")
    yield get("/schemas?ruleType=CEL")
    yield get("/schemas/ids/1/subjects?offset=1&limit=2")
    yield get("/schemas/ids/1/versions?offset=1&limit=2")
    yield get("/schemas/ids/1/versions?limit=0")
    yield get("/subjects?deleted=maybe")
    yield get("/subjects?unknown=1")
