"""Tags in the text of schemas."""

import json

import pytest
from tests.unit.registry.core.registered import Registered

from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.tag import EntityType, SchemaEntity, SchemaTags, change_tags, find_tags
from tailrace.schema import protobuf
from tailrace.schema.language import SchemaType

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "street", "type": "string"}]}
PERSON = {
    "type": "record",
    "name": "Person",
    "namespace": "n",
    "fields": [{"name": "home", "type": ["null", {"type": "array", "items": ADDRESS}]}, {"name": "age", "type": "int"}],
}
OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "homes": {"type": "array", "items": {"type": "object", "properties": {"street": {"type": "string"}}}},
        "pet": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"kind": {"type": "string"}}}]},
    },
    "definitions": {"D": {"type": "object", "properties": {"x": {"type": "string"}}}},
    "$defs": {"E": {"type": "object"}},
}


def tags(path: str, *names: str, kind: EntityType = EntityType.FIELD) -> SchemaTags:
    return SchemaTags(schema_entity=SchemaEntity(entity_path=path, entity_type=kind), tags=list(names))


@pytest.mark.parametrize(
    ("kind", "schema", "wanted"),
    [
        (SchemaType.AVRO, PERSON, tags("n.Person", "PII", kind=EntityType.RECORD)),
        (SchemaType.AVRO, PERSON, tags("n.Person.age", "PII")),
        (SchemaType.AVRO, PERSON, tags("n.Address.street", "PII", "OTHER")),
        (SchemaType.JSON, OBJECT, tags("object", "PII", kind=EntityType.RECORD)),
        (SchemaType.JSON, OBJECT, tags("object.name", "PII")),
        (SchemaType.JSON, OBJECT, tags("object.homes.array.object.street", "PII")),
        (SchemaType.JSON, OBJECT, tags("object.pet.oneof.1.object.kind", "PII")),
        (SchemaType.JSON, OBJECT, tags("object.definitions.D.object.x", "PII")),
        (SchemaType.JSON, OBJECT, tags("object.$defs.E.object", "PII", kind=EntityType.RECORD)),
    ],
)
def test_tags_are_found_where_they_were_added(kind: SchemaType, schema: object, wanted: SchemaTags) -> None:
    text = json.dumps(schema)
    tagged = change_tags(kind, text, [wanted], [])
    assert find_tags(kind, tagged, ["PII"]) == find_tags(kind, tagged, ["*"]) == [wanted]
    assert not find_tags(kind, tagged, ["NONE"])
    assert json.loads(change_tags(kind, tagged, [], [wanted])) == schema


def test_a_tag_is_added_once_and_the_others_stay() -> None:
    tagged = change_tags(SchemaType.AVRO, json.dumps(PERSON), [tags("n.Person.age", "A", "B")], [])
    changed = change_tags(SchemaType.AVRO, tagged, [tags("n.Person.age", "B", "C")], [tags("n.Person.age", "A")])
    assert find_tags(SchemaType.AVRO, changed, ["*"]) == [tags("n.Person.age", "B", "C")]


def test_a_path_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"no sr_field at path 'n\.Person\.size'") as raised:
        change_tags(SchemaType.AVRO, json.dumps(PERSON), [tags("n.Person.size", "A")], [])
    assert raised.value.code is Code.INVALID_SCHEMA


PROTOBUF = """syntax = "proto3";
package p;

message Person {
  string name = 1 [
    deprecated = true,
    json_name = "n"
  ];
  repeated Address homes = 2;

  oneof contact {
    string mail = 3;
  }

  message Address {
    string street = 1;
  }
}
"""


@pytest.mark.parametrize(
    "wanted",
    [
        tags("Person", "PII", kind=EntityType.RECORD),
        tags("Person.name", "PII", "OTHER"),
        tags("Person.mail", "PII"),
        tags("Person.Address", "PII", kind=EntityType.RECORD),
        tags("Person.Address.street", "PII"),
    ],
)
def test_tags_of_protobuf_are_found_where_they_were_added(wanted: SchemaTags) -> None:
    tagged = change_tags(SchemaType.PROTOBUF, PROTOBUF, [wanted], [])
    assert find_tags(SchemaType.PROTOBUF, tagged, ["PII"]) == find_tags(SchemaType.PROTOBUF, tagged, ["*"]) == [wanted]
    assert not find_tags(SchemaType.PROTOBUF, tagged, ["NONE"])
    assert change_tags(SchemaType.PROTOBUF, tagged, [], [wanted]) == PROTOBUF
    descriptor = protobuf.parse(tagged).descriptor.SerializeToString()
    assert b"PII" in descriptor


def test_a_path_may_name_the_oneof_and_start_with_a_dot() -> None:
    tagged = change_tags(
        SchemaType.PROTOBUF, PROTOBUF, [tags("Person.contact.mail", "A"), tags(".Person.mail", "B")], []
    )
    assert find_tags(SchemaType.PROTOBUF, tagged, ["*"]) == [tags("Person.mail", "A", "B")]


def test_a_changed_option_of_protobuf_becomes_one_message_and_the_others_stay() -> None:
    options = 'deprecated = true, (confluent.field_meta).tags = "A", (confluent.field_meta) = {doc: "d", tags: "B"}'
    text = f'syntax = "proto3"; message M {{ string a = 1 [{options}]; }}'
    changed = change_tags(SchemaType.PROTOBUF, text, [tags("M.a", "C")], [tags("M.a", "B")])
    assert "".join(changed.split()) == (
        'syntax="proto3";messageM{stringa=1[(confluent.field_meta)={tags:["A","C"],doc:"d"},deprecated=true];}'
    )
    assert "".join(change_tags(SchemaType.PROTOBUF, changed, [], [tags("M.a", "A", "C")]).split()).endswith(
        '[(confluent.field_meta)={doc:"d"},deprecated=true];}'
    )


@pytest.mark.parametrize("path", ["p.Person.name", "Person.contact", "Person.homes.street", "", "name"])
def test_a_path_of_protobuf_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(RegistryError, match="no sr_field at path") as raised:
        change_tags(SchemaType.PROTOBUF, PROTOBUF, [tags(path, "A")], [])
    assert raised.value.code is Code.INVALID_SCHEMA


def test_tags_of_an_invalid_protobuf_schema_are_refused() -> None:
    with pytest.raises(RegistryError, match=r"cannot have tags: .*line 1") as raised:
        change_tags(SchemaType.PROTOBUF, "message M {", [tags("M", "A", kind=EntityType.RECORD)], [])
    assert raised.value.code is Code.INVALID_SCHEMA


def test_a_new_version_can_keep_the_tags_of_the_last_one() -> None:
    registered = Registered()
    registered.register("a", change_tags(SchemaType.AVRO, json.dumps(PERSON), [tags("n.Person.age", "A")], []))
    fields = [{"name": "age", "type": "int"}, {"name": "size", "type": "int", "default": 0}]
    new = registered.register("a", json.dumps({**PERSON, "fields": fields}), keeps_tags=True)
    assert new.version == 2
    assert find_tags(new.type, new.text, ["*"]) == [tags("n.Person.age", "A")]
