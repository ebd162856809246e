"""Registering schemas, looking them up, and reading them by version, id and GUID."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
    delete,
    get,
    json_schema,
    look_up,
    post,
    protobuf,
    record,
    register,
    story,
)

INT_GUID = "ef524ea1-b91e-7317-3d93-8ade36c1db32"


@story
def empty() -> Iterator[Call]:
    """What a registry says that knows no schema."""
    yield get("/")
    yield post("/", {})
    yield get("/subjects")
    yield get("/schemas")
    yield get("/schemas/types")
    yield get("/contexts")
    yield get("/config")
    yield get("/mode")
    yield get("/v1/metadata/id")
    yield get("/v1/metadata/version")
    yield get("/v1/metadata/deployment")
    yield get("/subjects/none/versions")
    yield get("/subjects/none/versions/1")
    yield get("/subjects/none/versions/latest")
    yield get("/subjects/none/versions/1/schema")
    yield get("/subjects/none/versions/1/referencedby")
    yield get("/subjects/none/metadata?key=a&value=b")
    yield get("/schemas/ids/1")
    yield get("/schemas/ids/1/schema")
    yield get("/schemas/ids/1/subjects")
    yield get("/schemas/ids/1/versions")
    yield get(f"/schemas/guids/{INT_GUID}")
    yield get(f"/schemas/guids/{INT_GUID}/ids")
    yield look_up("none", avro("int"))
    yield delete("/subjects/none")
    yield delete("/subjects/none?permanent=true")
    yield delete("/subjects/none/versions/1")
    yield delete("/subjects/none/versions/latest")
    yield get("/config/none")
    yield get("/config/none?defaultToGlobal=true")
    yield get("/mode/none")
    yield get("/mode/none?defaultToGlobal=true")
    yield delete("/config/none")
    yield delete("/mode/none")


@story
def versions() -> Iterator[Call]:
    """Schemas of one subject and of several."""
    yield register("a", avro("int"))
    yield register("a", avro("int"))
    yield register("a", avro("long"))
    yield register("a", avro({"type": "int"}))
    yield register("b", avro("int"))
    yield get("/subjects")
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions/1")
    yield get("/subjects/a/versions/2")
    yield get("/subjects/a/versions/latest")
    yield get("/subjects/a/versions/-1")
    yield get("/subjects/a/versions/3")
    yield get("/subjects/a/versions/0")
    yield get("/subjects/a/versions/-2")
    yield get("/subjects/a/versions/newest")
    yield get("/subjects/a/versions/2147483648")
    yield get("/subjects/a/versions/1/schema")
    yield get("/subjects/a/versions/latest/schema")
    yield get("/subjects/a/versions/9/schema")
    yield get("/schemas/ids/1")
    yield get("/schemas/ids/1?fetchMaxId=true")
    yield get("/schemas/ids/1?subject=a")
    yield get("/schemas/ids/1?subject=none")
    yield get("/schemas/ids/2/schema")
    yield get("/schemas/ids/1/subjects")
    yield get("/schemas/ids/1/versions")
    yield get("/schemas/ids/1/subjects?subject=b")
    yield get("/schemas/ids/1/versions?subject=b")
    yield get("/schemas/ids/3")
    yield get("/schemas/ids/one")
    yield get("/schemas/ids/-1")
    yield get("/schemas/ids/99999999999")
    yield get(f"/schemas/guids/{INT_GUID}")
    yield get(f"/schemas/guids/{INT_GUID}/ids")
    yield get("/schemas/guids/none")
    yield get("/schemas")
    yield get("/schemas?latestOnly=true")
    yield get("/schemas?subjectPrefix=b")
    yield look_up("a", avro("int"))
    yield look_up("a", avro("string"))
    yield look_up("b", avro("long"))
    yield look_up("b", avro({"type": "int"}))


@story
def types() -> Iterator[Call]:
    """One schema of each type, and the texts that the registry keeps."""
    yield register("avro", {"schemaType": "AVRO", **record("R", a="int")})
    yield register("json", json_schema({"type": "object", "title": "T", "properties": {"a": {"type": "string"}}}))
    yield register("protobuf", protobuf("package p; message M { int32 a = 1; repeated string b = 2; }"))
    yield register("lower", {"schemaType": "avro", "schema": '"int"'})
    yield register("null", {"schemaType": None, "schema": '"int"'})
    yield register("other", {"schemaType": "THRIFT", "schema": "struct S {}"})
    yield register("spaces", {"schema": ' { "type" : "record",\n "name":"S", "doc":"d", "fields":[] } '})
    yield register("json-spaces", {"schemaType": "JSON", "schema": ' { "type" : "string",\n "minLength": 1.0 } '})
    yield register("true", {"schemaType": "JSON", "schema": "true"})
    yield register("protobuf-spaces", protobuf("/* c */ message   M{string a=1;}// end\n"))
    for subject in ("avro", "json", "protobuf", "spaces", "json-spaces", "true", "protobuf-spaces"):
        yield get(f"/subjects/{subject}/versions/1")
        yield get(f"/subjects/{subject}/versions/1/schema")
    yield get("/schemas/ids/2")
    yield get("/schemas/ids/3")
    yield get("/schemas/ids/3/schema")
    yield look_up("json", json_schema({"title": "T", "type": "object", "properties": {"a": {"type": "string"}}}))
    yield look_up("protobuf", protobuf("package p; message M { int32 a = 1; repeated string b = 2; }"))
    yield look_up("protobuf", avro("int"))
    yield register("mixed", avro("int"))
    yield register("mixed", json_schema({"type": "integer"}))


@story
def given_versions() -> Iterator[Call]:
    """Versions and ids that the client names itself, outside of import mode."""
    yield register("a", avro("int", version=1))
    yield register("a", avro("long", version=5))
    yield register("a", avro("long", version=2))
    yield register("a", avro("long", version=2))
    yield register("a", avro("long", version=3))
    yield register("a", avro("double", version=-1))
    yield register("a", avro("double", version=0))
    yield register("a", avro("float", id=17))
    yield register("a", avro("float", version=1, id=17))
    yield get("/subjects/a/versions")


@story
def avro_texts() -> Iterator[Call]:
    """What stays in an Avro schema and what the registry writes otherwise."""
    yield register("doc", record("n.s.R", {}, a=("int", 1), b=(["null", "string"], None)))
    yield register("aliases", avro({"type": "enum", "name": "E", "aliases": ["F"], "symbols": ["A"], "default": "A"}))
    yield register("logical", avro({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}))
    yield register("props", avro({"type": "record", "name": "P", "x": {"b": 1, "a": 2}, "fields": []}))
    yield register("nested", avro({"type": "array", "items": {"type": "map", "values": "n.Missing"}}))
    yield register("fixed", avro({"type": "fixed", "name": "a.b.F", "namespace": "c", "size": 4}))
    yield register(
        "order", avro({"fields": [{"type": "int", "name": "a", "order": "ignore"}], "name": "O", "type": "record"})
    )
    yield register(
        "union", avro(["null", {"type": "record", "name": "U", "fields": [{"name": "u", "type": ["null", "U"]}]}])
    )
    yield register("bad-default", record("D", a=("int", "x")))
    yield register("bad-name", record("1R", a="int"))
    yield register("bad-union", avro(["int", "int"]))
    yield register("double-field", avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}))
    yield register("bad-enum", avro({"type": "enum", "name": "E", "symbols": ["A", "A"]}))
    yield register("bad-decimal", avro({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 9}))
    for subject in ("doc", "aliases", "logical", "props", "fixed", "order", "union", "bad-default", "bad-decimal"):
        yield get(f"/subjects/{subject}/versions/1/schema")
