"""Schemas that refer to others."""

from collections.abc import Iterator
from typing import Any

from tests.unit.registry.answers.call import (
    Call,
    avro,
    delete,
    get,
    json_schema,
    look_up,
    protobuf,
    record,
    reference,
    register,
    story,
)

BASE = {"type": "record", "name": "n.Base", "fields": [{"name": "b", "type": "int"}]}


def _uses(subject: str = "base", version: int = 1, name: str = "n.Base") -> dict[str, Any]:
    return record("n.Uses", {"references": [reference(name, subject, version)]}, u="n.Base")


@story
def avro_reference() -> Iterator[Call]:
    """A record that another one uses."""
    yield register("uses", _uses())
    yield register("base", avro(BASE))
    yield register("uses", _uses())
    yield register("uses", _uses())
    yield register("uses", _uses(version=-1))
    yield register("uses", _uses(version=2))
    yield register("uses", _uses(subject="none"))
    yield register("uses", _uses(name="other"))
    yield register("uses", record("n.Uses", u="n.Base"))
    yield register("twice", record("n.Twice", {"references": [reference("n.Base", "base")] * 2}, u="n.Base"))
    yield register("empty", record("E", {"references": []}, e="int"))
    yield register("unused", record("X", {"references": [reference("n.Base", "base")]}, e="int"))
    yield register("broken", record("n.B", {"references": [{"name": "n.Base"}]}, u="n.Base"))
    yield register("broken", record("n.B", {"references": [{"name": "n.Base", "subject": "base"}]}, u="n.Base"))
    yield register("broken", record("n.B", {"references": "base"}, u="n.Base"))
    yield get("/subjects/uses/versions/1")
    yield get("/schemas/ids/2")
    yield get("/schemas/ids/2?format=resolved")
    yield get("/subjects/uses/versions/1?format=resolved")
    yield get("/subjects/base/versions/1/referencedby")
    yield get("/subjects/base/versions/latest/referencedby")
    yield get("/subjects/base/versions/7/referencedby")
    yield look_up("uses", _uses())
    yield look_up("uses", record("n.Uses", u="n.Base"))
    yield delete("/subjects/base/versions/1")
    yield delete("/subjects/base")
    yield delete("/subjects/uses")
    yield get("/subjects/base/versions/1/referencedby")
    yield get("/subjects/base/versions/1/referencedby?deleted=true")
    yield delete("/subjects/twice")
    yield delete("/subjects/unused")
    yield delete("/subjects/base")
    yield register("late", _uses())
    yield delete("/subjects/base?permanent=true")
    yield delete("/subjects/uses?permanent=true")
    yield delete("/subjects/twice?permanent=true")
    yield delete("/subjects/unused?permanent=true")
    yield delete("/subjects/base?permanent=true")


@story
def chain() -> Iterator[Call]:
    """References that have references, in all three types."""
    inner = [reference("n.Base", "base")]
    yield register("base", avro(BASE))
    yield register("middle", record("n.Middle", {"references": inner}, m="n.Base"))
    yield register("top", record("n.Top", {"references": [reference("n.Middle", "middle")]}, t="n.Middle"))
    yield register("top2", record("n.Top", {"references": [reference("n.Middle", "middle")]}, t="n.Base"))
    yield get("/subjects/middle/versions/1/referencedby")
    yield get("/subjects/top/versions/1?format=resolved")
    yield register("a.proto", protobuf("package a; message A { string s = 1; }"))
    a_proto = [reference("a.proto", "a.proto")]
    yield register("b.proto", protobuf('import "a.proto"; message B { a.A a = 1; }', references=a_proto))
    b_proto = [reference("b.proto", "b.proto")]
    yield register("c.proto", protobuf('import public "b.proto"; message C { B b = 1; }', references=b_proto))
    yield register("d.proto", protobuf('import "none.proto"; message D { a.A a = 1; }'))
    yield register("e.proto", protobuf("message E { a.A a = 1; }", references=a_proto))
    yield register(
        "f.proto", protobuf('import "google/protobuf/timestamp.proto"; message F { google.protobuf.Timestamp t = 1; }')
    )
    yield get("/subjects/c.proto/versions/1")
    yield get("/subjects/a.proto/versions/1/referencedby")
    yield register("a.json", json_schema({"type": "object", "properties": {"s": {"type": "string"}}}))
    a_json = [reference("a.json", "a.json")]
    uses = {"type": "object", "properties": {"a": {"$ref": "a.json"}}}
    yield register("b.json", json_schema(uses, references=a_json))
    yield register("c.json", json_schema({"$ref": "b.json"}, references=[reference("b.json", "b.json")]))
    yield register("d.json", json_schema(uses))
    yield register("e.json", json_schema({"$ref": "a.json#/properties/s"}, references=a_json))
    yield register("f.json", json_schema({"$ref": "#/definitions/none"}))
    yield get("/subjects/b.json/versions/1")
    yield get("/subjects/a.json/versions/1/referencedby")


@story
def circle() -> Iterator[Call]:
    """References that lead back to where they began."""
    yield register("self", record("n.Self", {"references": [reference("n.Self", "self")]}, s="n.Self"))
    yield register("x", record("n.X", x="int"))
    yield register("y", record("n.Y", {"references": [reference("n.X", "x")]}, y="n.X"))
    yield register("x", record("n.X", {"references": [reference("n.Y", "y")]}, x="int", y=(["null", "n.Y"], None)))
    yield get("/subjects/x/versions")
    yield delete("/subjects/x/versions/1")
    yield delete("/subjects/y")
