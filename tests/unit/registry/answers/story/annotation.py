"""Metadata, rule sets, tags and associations."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.unit.registry.answers.call import (
    Body,
    Call,
    avro,
    delete,
    get,
    look_up,
    post,
    protobuf,
    put,
    record,
    register,
    story,
)

RULE = {"name": "rule", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}


@story
def metadata() -> Iterator[Call]:
    """Properties, tags and sensitive names."""
    full = {"tags": {"t": ["b", "a"]}, "properties": {"z": "1", "a": "2"}, "sensitive": ["a"]}
    yield register("a", avro("int", metadata=full))
    yield register("a", avro("int"))
    yield register("a", avro("int", metadata={"properties": {"z": "2"}}))
    yield register("a", avro("int", metadata={"properties": {"z": "2"}}))
    yield register("a", avro("int", metadata={}))
    yield register("a", avro("int", metadata=None))
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions/1")
    yield get("/schemas/ids/1")
    yield get("/schemas")
    yield look_up("a", avro("int"))
    yield look_up("a", avro("int", metadata={"properties": {"z": "2"}}))
    yield look_up("a", avro("int", metadata={"properties": {"z": "3"}}))
    yield get("/subjects/a/metadata?key=z&value=1")
    yield get("/subjects/a/metadata?key=z&value=2")
    yield get("/subjects/a/metadata?key=z&value=9")
    yield get("/subjects/a/metadata?key=z&value=1&key=a&value=2")
    yield get("/subjects/a/metadata?key=z")
    yield get("/subjects/a/metadata")
    yield register("a", avro("int", metadata={"properties": {"z": 1}}))
    yield register("a", avro("int", metadata={"tags": {"t": "x"}}))
    yield register("b", avro("int", metadata={"properties": {"confluent:version": "1"}}))
    yield register("b", avro("int", metadata={"properties": {"confluent:version": "5"}}))


def _rules(*rules: Any, kind: str = "domainRules") -> Body:
    return avro("int", ruleSet={kind: list(rules)})


@story
def rules() -> Iterator[Call]:
    """Rule sets, good and bad.

    Confluent's community edition drops rule sets and warns in its log. They were recorded with an extension that keeps
    them, as the enterprise edition does.
    """
    yield register("a", _rules(RULE))
    yield get("/subjects/a/versions/1")
    yield get("/schemas/ids/1")
    yield get("/schemas?ruleType=CEL")
    yield get("/schemas?ruleType=NONE")
    yield register("a", _rules({**RULE, "mode": "UPGRADE"}, kind="migrationRules"))
    yield register(
        "a",
        _rules(
            {**RULE, "tags": ["PII"], "params": {"b": "1", "a": "2"}, "onFailure": "DLQ", "disabled": True, "doc": "d"}
        ),
    )
    yield register(
        "a", _rules({**RULE, "kind": "TRANSFORM", "mode": "WRITEREAD", "onSuccess": "NONE,ERROR"}, kind="encodingRules")
    )
    yield register("a", avro("int", ruleSet={}))
    yield register("a", avro("int", ruleSet={"domainRules": []}))
    yield get("/subjects/a/versions/latest")
    yield register("b", _rules(RULE, RULE))
    yield register("b", _rules({**RULE, "mode": "UPGRADE"}))
    yield register("b", _rules(RULE, kind="migrationRules"))
    yield register("b", _rules({"name": "r"}))
    yield register("b", _rules({"kind": "CONDITION", "mode": "WRITE", "type": "CEL"}))
    yield register("b", _rules({**RULE, "name": ""}))
    yield register("b", _rules({**RULE, "name": "1x"}))
    yield register("b", _rules({**RULE, "name": "a b"}))
    yield register("b", _rules({**RULE, "name": "x" * 65}))
    yield register("b", _rules({**RULE, "type": None}))
    yield register("b", _rules({**RULE, "kind": "WISH"}))
    yield register("b", _rules({**RULE, "onFailure": "A,B"}))
    yield register("b", _rules({**RULE, "unknown": 1}))
    yield get("/subjects")


@story
def tags() -> Iterator[Call]:
    """Tags inside a schema."""
    entity = {"entityPath": "R.a", "entityType": "sr_field"}
    tagged = {"schemaEntity": entity, "tags": ["PII"]}
    yield register("a", record("R", a="int"))
    yield post("/subjects/a/versions/1/tags", {"tagsToAdd": [tagged]})
    yield post("/subjects/a/versions/latest/tags", {"tagsToAdd": [tagged]})
    yield get("/subjects/a/versions/latest")
    yield get("/subjects/a/versions/latest?findTags=PII")
    yield get("/subjects/a/versions/latest?findTags=*")
    yield get("/schemas/ids/2?findTags=PII")
    yield post("/subjects/a/versions/latest/tags", {"tagsToRemove": [tagged]})
    yield post(
        "/subjects/a/versions/latest/tags", {"tagsToAdd": [{**tagged, "schemaEntity": {**entity, "entityPath": "R.z"}}]}
    )
    yield post("/subjects/a/versions/latest/tags", {"newVersion": 9, "tagsToAdd": [tagged]})
    yield post("/subjects/a/versions/9/tags", {"tagsToAdd": [tagged]})
    yield post("/subjects/none/versions/1/tags", {"tagsToAdd": [tagged]})
    yield post("/subjects/a/versions/latest/tags", {})
    yield register("b", {**record("R", a="int"), "schemaTagsToAdd": [tagged]})
    yield get("/subjects/a/versions")


def _change(subject: str, added: Sequence[Body] = (), removed: Sequence[Body] = ()) -> Call:
    return post(f"/subjects/{subject}/versions/latest/tags", {"tagsToAdd": list(added), "tagsToRemove": list(removed)})


def _tags(path: str, *names: str, kind: str = "sr_field") -> Body:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}


@story
def protobuf_tags() -> Iterator[Call]:
    """Tags inside a Protobuf schema, which are options."""
    inner = 'message N { string e = 1 [(confluent.field_meta) = {doc: "x", tags: ["T", "U"]}]; }'
    oneof = 'oneof o { string c = 3 [(confluent.field_meta).tags = "X"]; int32 d = 4; }'
    option = 'option (confluent.message_meta).doc = "d";'
    yield register(
        "a", protobuf(f"package p; message M {{ {option} string a = 1; {oneof} {inner} map<string, N> m = 5; }}")
    )
    yield get("/subjects/a/versions/1?findTags=*")
    yield _change("a", [_tags("M.a", "PII")])
    yield _change("a", [_tags("M.a", "PII", "B", "B"), _tags(".M.a", "DOT")])
    yield _change("a", [_tags("M", "R", kind="sr_record"), _tags("M.N", "R", kind="sr_record")])
    yield _change("a", [_tags("M.N.e", "V", "T")])
    yield _change("a", [_tags("M.c", "Y"), _tags("M.o.c", "Z"), _tags("M.m", "MAP")])
    yield get("/subjects/a/versions/latest?findTags=*")
    yield get("/subjects/a/versions/latest?findTags=R&findTags=MAP")
    yield get("/subjects/a/versions/latest?findTags=NONE")
    yield get("/schemas/ids/6?findTags=PII")
    yield _change("a", [], [_tags("M.a", "PII", "B", "DOT"), _tags("M.N.e", "T", "U", "V"), _tags("M.c", "X")])
    yield _change("a", [_tags("M.a", "A", "B")], [_tags("M.a", "A")])
    yield get("/subjects/a/versions/latest?findTags=*")
    for path in ("p.M.a", "M.z", "M.o", "M.N.z", "Z.a", "a", ""):
        yield _change("a", [_tags(path, "X")])
    yield _change("a", [_tags("M.a", "X", kind="sr_record")])
    yield _change("a", [], [_tags("M.z", "X")])
    yield register("b", protobuf('package p; message M { int32 a = 1 [json_name = "j", deprecated = true]; }'))
    yield _change("b", [_tags("M.a", "PII")])
    added = [_tags("M.a", "PII")]
    yield register("c", protobuf("package p; message M { string a = 1; }", schemaTagsToAdd=added))
    yield register("c", protobuf("package p; message M { string a = 1; string b = 2; }", propagateSchemaTags=True))
    yield register("c", protobuf("package p; message M { string b = 2; }", propagateSchemaTags=True))
    yield register("d", protobuf("message M { string a = 1; }", schemaTagsToAdd=added))


@story
def associations() -> Iterator[Call]:
    """Subjects that belong to a topic."""
    value = {"subject": "t-value", "associationType": "value", "lifecycle": "STRONG", "schema": avro("int")}
    body = {
        "resourceName": "t",
        "resourceNamespace": "lkc-1",
        "resourceId": "id-1",
        "resourceType": "topic",
        "associations": [value],
    }
    yield get("/associations/subjects/none")
    yield get("/associations/resources/id-1")
    yield get("/associations/resources/lkc-1/t")
    yield post("/associations", body)
    yield get("/associations/subjects/t-value")
    yield get("/associations/resources/id-1")
    yield get("/associations/resources/lkc-1/t")
    yield get("/associations/resources/lkc-1/t?associationType=key")
    yield post("/associations", body)
    yield post("/associations", {**body, "resourceId": "id-2", "resourceName": "u"})
    yield put("/associations/resources/id-1", body)
    yield post("/associations", {})
    yield post("/associations:batchGet", {})
    yield delete("/subjects/t-value")
    yield delete("/associations/resources/id-1?cascadeLifecycle=true&resourceType=topic")
    yield get("/associations/resources/id-1")
    yield get("/subjects?deleted=true")
