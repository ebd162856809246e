"""Input that is no good: bodies, names, media types, paths and sizes."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import Call, avro, delete, get, json_schema, post, protobuf, put, register, story


@story
def bodies() -> Iterator[Call]:
    """Bodies that are no requests."""
    path = "/subjects/a/versions"
    for text in ("", "null", "{", "[]", '"int"', "1", "{}", '{"schema": null}', '{"schema": ""}', '{"schema": " "}'):
        yield post(path, text)
    for text in ('{"schema": 1}', '{"schema": {"type": "int"}}', '{"schema": ["int"]}', '{"schema": true}'):
        yield post(path, text)
    yield post(path, '{"schema": "\\"int\\"", "unknown": 1}')
    yield post(path, '{"schema": "\\"int\\"", "version": "x"}')
    yield post(path, '{"schema": "\\"int\\"", "id": 1.5}')
    yield post(path, '{"schema": "\\"int\\"", "references": {}}')
    yield post(path, '{"schema": "\\"int\\"", "metadata": 1}')
    yield post(path, '{"schema": "\\"int\\"", "ruleSet": {"domainRules": 1}}')
    yield post(path, '{"schema": "\\"int\\""} more')
    yield post(path, '{"schema": "\\"int\\"", "schema": "\\"long\\""}')
    yield post("/subjects/a", "")
    yield post("/subjects/a", "{}")
    yield post("/compatibility/subjects/a/versions/latest", "")
    yield put("/config", "")
    yield put("/config", "{")
    yield put("/config/a", "[]")
    yield put("/mode", "")
    yield put("/mode", "{")
    yield Call("POST", path)
    yield Call("PUT", "/config")
    yield get("/subjects")


@story
def schemas() -> Iterator[Call]:
    """Schemas that are none."""
    for text in (
        "{",
        "int",
        '"integer"',
        "{}",
        "[]",
        "1",
        "null",
        '{"type": "record"}',
        '{"type": "record", "name": "R"}',
    ):
        yield register("avro", {"schema": text})
    for text in (
        "{",
        '"string"',
        "1",
        "null",
        "[]",
        "{}",
        "false",
        '{"type": "text"}',
        '{"type": 1}',
        '{"properties": 1}',
    ):
        yield register("json", {"schemaType": "JSON", "schema": text})
    yield register("json", json_schema({"$schema": "http://json-schema.org/draft-04/schema#", "type": "string"}))
    yield register("json", json_schema({"$schema": "http://schema.example/none", "type": "string"}))
    yield register("json", json_schema({"type": "string", "pattern": "["}))
    for text in (
        "",
        "message M {",
        "message M { int32 a = 0; }",
        "message M { int32 a = 1; int32 b = 1; }",
        "message M { int32 a = 1; int32 a = 2; }",
        "message M { int32 a = 19000; }",
        "message M { Missing a = 1; }",
        "message M { required int32 a = 1; }",
        "enum E { A = 1; }",
        "enum E { }",
        "message M { reserved 1; int32 a = 1; }",
        "message M { } message M { }",
    ):
        yield register("protobuf", protobuf(text))
    yield register("protobuf", {"schemaType": "PROTOBUF", "schema": "message M { optional int32 a = 1; }"})
    yield register("protobuf", {"schemaType": "PROTOBUF", "schema": "not protobuf"})
    yield get("/subjects")


@story
def names() -> Iterator[Call]:
    """Subjects with unusual names."""
    for name in (
        "a%20b",
        "a%2Fb",
        "..%2f..",
        "%2e%2e",
        "..",
        ".",
        "%00",
        "a%0Ab",
        "%C3%A4",
        "%E2%98%83",
        "a%3Fb",
        "a%25b",
    ):
        yield register(name, avro("int"))
    yield register("a+b", avro("int"))
    yield register("a;b=c", avro("int"))
    yield register("%", avro("int"))
    yield register("%zz", avro("int"))
    yield register("%ff", avro("int"))
    yield register("", avro("int"))
    yield register("x" * 255, avro("int"))
    yield register("x" * 3000, avro("int"))
    yield register("x" * 10_000, avro("int"))
    yield get("/subjects/a%20b/versions/1")
    yield get("/subjects/" + "x" * 3000 + "/versions")
    yield get("/subjects/..%2f../versions")
    yield get("/subjects")
    yield delete("/subjects/a%20b")


@story
def media_types() -> Iterator[Call]:
    """What may be sent and what may be asked for."""
    body = '{"schema": "\\"int\\""}'
    for media_type in (
        "application/vnd.schemaregistry.v1+json",
        "application/vnd.schemaregistry.v1+json; charset=utf-8",
        "application/vnd.schemaregistry+json",
        "application/json",
        "application/octet-stream",
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/vnd.schemaregistry.v2+json",
        "nonsense",
        "",
    ):
        yield post("/subjects/a/versions", body, content_type=media_type)
    for media_type in (
        "*/*",
        "application/json",
        "application/*",
        "application/vnd.schemaregistry+json",
        "application/vnd.schemaregistry.v1+json",
        "application/json, application/vnd.schemaregistry.v1+json; q=0.5",
        "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json",
        "text/plain",
        "text/html, */*; q=0.1",
        "application/vnd.schemaregistry.v2+json",
        "nonsense",
    ):
        yield get("/subjects", accept=media_type)
    yield get("/subjects/none/versions/1", accept="application/json")
    yield get("/subjects/none/versions/1", accept="text/plain")
    yield get("/schemas/ids/1/schema", accept="application/json")


@story
def paths() -> Iterator[Call]:
    """Paths and methods that the API does not have."""
    yield get("/none")
    yield get("/subjects/")
    yield get("//subjects")
    yield get("/subjects/a/none")
    yield get("/subjects/a")
    yield get("/schemas/ids")
    yield get("/schemas/none")
    yield get("/v1/metadata")
    yield delete("/subjects")
    yield put("/subjects/a/versions", {})
    yield Call("PATCH", "/subjects", "{}")
    yield Call("HEAD", "/subjects")
    yield Call("OPTIONS", "/subjects")
    yield post("/config", {"compatibility": "NONE"})
    yield post("/mode", {"mode": "READONLY"})
    yield post("/schemas/ids/1", {})
    yield post("/contexts", {})
    yield post("/compatibility/subjects/a", {})


@story
def sizes() -> Iterator[Call]:
    """Schemas that are large or deep."""
    fields = [{"name": f"field_{number}", "type": "string"} for number in range(1000)]
    yield register("wide", avro({"type": "record", "name": "Wide", "fields": fields}))
    yield register("large", avro({"type": "record", "name": "Large", "doc": "x" * 10_000_000, "fields": []}))
    yield register("deep-50", {"schema": _nested(50)})
    yield register("deep-10000", {"schema": _nested(10_000)})
    yield register("deep-json", {"schemaType": "JSON", "schema": '{"not":' * 10_000 + "true" + "}" * 10_000})
    yield register("deep-protobuf", protobuf("message M { " * 10_000 + "}" * 10_000))
    yield post("/subjects/deep-body/versions", "[" * 100_000)
    yield get("/subjects")


def _nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth
