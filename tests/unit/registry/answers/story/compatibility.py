"""Checks of compatibility: levels, policies, and what the answers say."""

from collections.abc import Iterator
from typing import Any

from tests.unit.registry.answers.call import (
    Call,
    avro,
    check,
    check_all,
    json_schema,
    post,
    protobuf,
    put,
    record,
    register,
    set_level,
    story,
)

ADDED = record("R", a="int", b="string")
ADDED_WITH_DEFAULT = record("R", a="int", b=("string", ""))
ONLY_A = record("R", a="int")
PROMOTED = record("R", a="long")


@story
def avro_levels() -> Iterator[Call]:
    """The same changes under every level."""
    yield register("a", ONLY_A)
    for level in (
        "NONE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ):
        yield set_level(level, "a")
        for body in (ADDED, ADDED_WITH_DEFAULT, PROMOTED, record("S", a="int")):
            yield check("a", body)
    yield set_level("BACKWARD", "a")
    yield register("a", ADDED)
    yield set_level("FORWARD", "a")
    yield register("a", PROMOTED)
    yield set_level("FULL", "a")
    yield register("a", ADDED)


@story
def transitive() -> Iterator[Call]:
    """Versions that agree with the latest one and not with an older one."""
    yield set_level("NONE")
    yield register("a", record("R", a="int"))
    yield register("a", record("R", b=("int", 0)))
    step = record("R", b=("int", 0), a="string")
    with_default = record("R", b=("int", 0), a=("string", ""))
    for level in ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"):
        yield set_level(level, "a")
        yield check_all("a", step)
        yield check_all("a", with_default)
        yield check("a", with_default, "1")
        yield check("a", with_default, "2")
    yield set_level("BACKWARD_TRANSITIVE", "a")
    yield register("a", with_default)
    yield set_level("BACKWARD", "a")
    yield register("a", with_default)


@story
def answers() -> Iterator[Call]:
    """The forms of the answer, and checks that cannot be made."""
    yield register("a", ONLY_A)
    yield check("a", ADDED, query="")
    yield check("a", ADDED, query="?verbose=false")
    yield check("a", PROMOTED, query="")
    yield check("a", ADDED, "1")
    yield check("a", ADDED, "2")
    yield check("a", ADDED, "0")
    yield check("a", ADDED, "x")
    yield check("none", ADDED)
    yield check("none", ADDED, "1")
    yield check_all("none", ADDED)
    yield check_all("a", ADDED, "")
    yield check_all("a", PROMOTED, "")
    yield check("a", {"schema": "{"})
    yield check("a", {"schema": ""})
    yield check("a", {})
    yield check("a", json_schema({"type": "object"}))
    yield check("a", protobuf("message R { int32 a = 1; }"))
    yield check("a", {"schemaType": "THRIFT", "schema": "x"})
    yield check("a", record("R", {"references": [{"name": "x", "subject": "y", "version": 1}]}, a="int"))
    yield post("/compatibility/subjects/a/versions/latest?normalize=true&verbose=true", PROMOTED)


AVRO_CHANGES: list[tuple[Any, Any]] = [
    ("int", "string"),
    ("int", "long"),
    ("long", "int"),
    ("string", "bytes"),
    (["null", "int"], "int"),
    ("int", ["null", "int"]),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]}),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
    ),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4}),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
    ),
    (
        {"type": "record", "name": "Old", "fields": []},
        {"type": "record", "name": "New", "aliases": ["Old"], "fields": []},
    ),
]


@story
def avro_changes() -> Iterator[Call]:
    """One change for each kind of message."""
    for number, (old, new) in enumerate(AVRO_CHANGES):
        yield register(f"s{number}", avro(old))
        yield check(f"s{number}", avro(new))


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
TWO = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}

JSON_CHANGES: list[tuple[Any, Any]] = [
    (OPEN, TWO),
    (TWO, OPEN),
    (CLOSED, {**TWO, "additionalProperties": False}),
    ({**TWO, "additionalProperties": False}, CLOSED),
    (OPEN, CLOSED),
    (CLOSED, OPEN),
    (OPEN, {**OPEN, "required": ["a"]}),
    ({**OPEN, "required": ["a"]}, OPEN),
    ({"type": "string"}, {"type": "integer"}),
    ({"type": "integer"}, {"type": "number"}),
    ({"type": "number"}, {"type": "integer"}),
    ({"type": "string"}, {"type": "string", "maxLength": 5}),
    ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"]}),
    ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}),
    ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"oneOf": [{"type": "string"}]}),
    ({"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "null"}]}),
]


@story
def json_changes() -> Iterator[Call]:
    """Changes of JSON Schemas under both policies."""
    for number, (old, new) in enumerate(JSON_CHANGES):
        yield register(f"s{number}", json_schema(old))
        yield check(f"s{number}", json_schema(new))
    yield put("/config", {"compatibilityPolicy": "LENIENT"})
    for number, (_, new) in enumerate(JSON_CHANGES):
        yield check(f"s{number}", json_schema(new))
    yield register("s6", json_schema(JSON_CHANGES[6][1]))


PROTOBUF_CHANGES = [
    ("message M { int32 a = 1; }", "message M { int32 a = 1; string b = 2; }"),
    ("message M { int32 a = 1; string b = 2; }", "message M { int32 a = 1; }"),
    ("message M { int32 a = 1; }", "message M { string a = 1; }"),
    ("message M { int32 a = 1; }", "message M { int64 a = 1; }"),
    ("message M { int32 a = 1; }", "message M { int32 renamed = 1; }"),
    ("message M { int32 a = 1; }", "message M { repeated int32 a = 1; }"),
    ("message M { string a = 1; }", "message M { repeated string a = 1; }"),
    ("message M { int32 a = 1; }", "message N { int32 a = 1; }"),
    ("message M { int32 a = 1; } message N { }", "message M { int32 a = 1; }"),
    ("package p; message M { int32 a = 1; }", "package q; message M { int32 a = 1; }"),
    ("message M { int32 a = 1; int32 b = 2; }", "message M { oneof o { int32 a = 1; int32 b = 2; } }"),
    ("message M { int32 a = 1; }", "message M { oneof o { int32 a = 1; } }"),
    ("message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { oneof o { int32 a = 1; } }"),
    ("enum E { A = 0; B = 1; } message M { E e = 1; }", "enum E { A = 0; } message M { E e = 1; }"),
    ("message M { message I { int32 x = 1; } I i = 1; }", "message M { message J { int32 x = 1; } J i = 1; }"),
]


@story
def protobuf_changes() -> Iterator[Call]:
    """Changes of Protobuf schemas."""
    for number, (old, new) in enumerate(PROTOBUF_CHANGES):
        yield register(f"s{number}", protobuf(old))
        yield check(f"s{number}", protobuf(new))
    yield register("s2", protobuf(PROTOBUF_CHANGES[2][1]))


@story
def other_type() -> Iterator[Call]:
    """A subject whose schemas change their type."""
    yield register("a", avro("int"))
    yield register("a", json_schema({"type": "integer"}))
    yield check("a", protobuf("message M { }"))
    yield set_level("NONE", "a")
    yield check("a", protobuf("message M { }"))
    yield register("a", json_schema({"type": "integer"}))
    yield register("a", protobuf("message M { }"))
