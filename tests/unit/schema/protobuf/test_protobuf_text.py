"""The texts of schemas, compared with those of Confluent's registry.

`golden.json` has what its source of August 2026 answered: the canonical and the normal text of a file, and of the
descriptor of that file.
"""

import base64
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from tailrace.schema.language import SchemaType
from tailrace.schema.protobuf import option_text, parse

GOLDEN: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("golden.json").read_text())

VALID_ENUM = {"enum"}
"""Confluent sorts negative constants to the front, and the first constant of an enum of proto3 has to be 0."""

NUMBERS_CHANGE_TWICE = {"defaults", "number options", "number options known"}
"""Confluent writes -0.0 as -0, and that as 0, when it normalises a second time."""


@pytest.mark.parametrize("name", GOLDEN)
def test_the_canonical_text_is_confluents(name: str) -> None:
    golden = GOLDEN[name]
    schema = parse(golden["text"])
    assert schema.text == golden["canonical"]
    assert schema.name == golden["name"]
    assert schema.formatted("") == schema.formatted("unheard of") == schema.text
    assert schema.formatted("ignore_extensions") == golden.get("ignore_extensions", golden["canonical"])


@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in VALID_ENUM])
def test_the_normal_text_is_confluents(name: str) -> None:
    golden = GOLDEN[name]
    assert parse(golden["text"]).normalized().text == golden["normalized"]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in VALID_ENUM])
def test_a_descriptor_becomes_the_text_that_confluent_stores(name: str) -> None:
    golden = GOLDEN[name]
    schema = parse(golden["descriptor"])
    assert schema.text == golden["descriptor_canonical"]
    assert schema.normalized().text == golden["descriptor_normalized"]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_text_can_be_parsed_again(name: str) -> None:
    schema = parse(GOLDEN[name]["text"])
    assert parse(schema.text).text == schema.text
    normal = schema.normalized()
    assert not normal.differences(schema)
    assert not schema.differences(parse(normal.text))
    if name not in NUMBERS_CHANGE_TWICE:
        assert parse(normal.text).normalized().text == normal.text


@pytest.mark.parametrize("name", GOLDEN)
def test_the_serialized_form_is_the_descriptor(name: str) -> None:
    schema = parse(GOLDEN[name]["text"])
    assert FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized"))) == schema.descriptor
    assert schema.formatted("serialized") == GOLDEN[name]["descriptor"]


def test_a_schema_says_what_it_is() -> None:
    schema = parse('syntax = "proto3"; package shop; enum E { X = 0; } message Order { } message Item { }')
    assert schema.type is SchemaType.PROTOBUF
    assert schema.name == "shop.Order"
    assert parse('syntax = "proto3";').name is None


def test_order_notation_and_comments_do_not_change_the_normal_form() -> None:
    one = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
        message M { string b = 2; int32 a = 1 [json_name = "x", deprecated = true]; N n = 3; google.protobuf.Any y = 4;
        google.protobuf.Timestamp t = 5; reserved 9, 7; message N { } }"""
    two = """syntax = "proto3"; package p; /* imports */ import "google/protobuf/any.proto";
        import "google/protobuf/timestamp.proto";
        message M { .p.M.N n = 3; reserved 7; reserved 9;
        int32 a = 1 [deprecated = true, json_name = "x"]; .google.protobuf.Any y = 4; google.protobuf.Timestamp t = 5;
        p.M.N m = 6; string b = 2; message N { } } // end"""
    assert parse(one).text != parse(two).text
    assert parse(one).normalized().text != parse(two).normalized().text
    assert parse(one).normalized().text == parse(two.replace("p.M.N m = 6;", "")).normalized().text


def test_negative_constants_do_not_make_a_normal_form_invalid() -> None:
    schema = parse('syntax = "proto3"; enum E { A = 0; C = 2; B = -1; }').normalized()
    assert schema.text == 'syntax = "proto3";\n\nenum E {\n  A = 0;\n  B = -1;\n  C = 2;\n}\n'


def test_a_default_of_bytes_that_is_no_word_keeps_its_quotes() -> None:
    """Confluent's registry writes it without quotes, and cannot read its own text again."""
    schema = parse('message M { optional bytes a = 1 [default = "a b"]; optional bytes c = 2 [default = "\\377;"]; }')
    assert 'a = 1 [default = "a b"];' in schema.text
    assert schema.descriptor.message_type[0].field[1].default_value == "\\377;"
    assert parse(schema.text).text == schema.text
    assert parse(schema.formatted("serialized")).text == schema.text


def test_reserved_names_keep_their_quotes() -> None:
    text = 'syntax = "proto3"; message M { reserved "a\\"; message N {} //"; }'
    assert [message.name for message in parse(parse(text).text).descriptor.message_type] == ["M"]


def test_editions_are_kept() -> None:
    """Confluent's registry does not read them at all."""
    text = """edition = "2023"; option features.field_presence = IMPLICIT;
        message M { reserved old; int32 a = 1; int32 b = 2 [features.field_presence = EXPLICIT]; }"""
    schema = parse(text)
    assert schema.text.startswith('edition = "2023";\n\noption features.field_presence = IMPLICIT;\n')
    assert parse(schema.text).text == schema.text
    assert parse(schema.normalized().text).descriptor == schema.descriptor
    assert schema.descriptor.syntax == "editions"
    assert schema.descriptor.options.features.HasField("field_presence")


def test_descriptors_have_what_serializers_need() -> None:
    text = """syntax = "proto3"; package p; message M { map<string, N> entry_by_name = 1; optional N maybe = 2;
        oneof o { E e = 3; } message N { } enum E { X = 0; } N plain = 4; }"""
    message = parse(text).descriptor.message_type[0]
    assert [nested.name for nested in message.nested_type] == ["N", "EntryByNameEntry"]
    assert [oneof.name for oneof in message.oneof_decl] == ["o", "_maybe"]
    types = {field.name: (field.type, field.type_name, field.proto3_optional) for field in message.field}
    assert types == {
        "e": (FieldDescriptorProto.TYPE_ENUM, ".p.M.E", False),
        "entry_by_name": (FieldDescriptorProto.TYPE_MESSAGE, ".p.M.EntryByNameEntry", False),
        "maybe": (FieldDescriptorProto.TYPE_MESSAGE, ".p.M.N", True),
        "plain": (FieldDescriptorProto.TYPE_MESSAGE, ".p.M.N", False),
    }


def test_a_group_is_a_group_in_the_descriptor() -> None:
    message = parse("message M { repeated group Row = 1 { optional int32 a = 2; } }").descriptor.message_type[0]
    assert message.field[0].type == FieldDescriptorProto.TYPE_GROUP
    assert message.field[0].type_name == ".M.Row"
    assert message.nested_type[0].field[0].name == "a"


def test_a_type_that_is_used_without_an_import_is_imported_in_the_descriptor() -> None:
    """Confluent's registry finds all types of its references and of the well-known files without an import."""
    schema = parse(
        'syntax = "proto3"; message M { google.protobuf.Timestamp t = 1; p.N n = 2; }',
        {"n.proto": 'syntax = "proto3"; package p; message N { }'},
    )
    assert sorted(schema.descriptor.dependency) == ["google/protobuf/timestamp.proto", "n.proto"]
    assert list(schema.linked())[-1] == "default"


EXTENSIONS = """syntax = "proto3"; import "google/protobuf/descriptor.proto";
    message Meta { repeated string tags = 1; string doc = 2; Meta inner = 3; }
    extend google.protobuf.FileOptions { Meta meta = 50000; }
    """


def test_the_settings_of_one_message_are_merged_into_one_option() -> None:
    text = (
        EXTENSIONS
        + """
        option (meta) = {tags: "a" doc: "first" inner: {tags: "x" doc: "y"}};
        option (meta).tags = "b"; option (meta).tags = "a"; option (meta).doc = "last";
        option (meta).inner.tags = "z"; option (meta).inner = {inner: {doc: "deep"}};"""
    )
    assert (
        """option (meta) = {
  doc: "last",
  inner: {
    doc: "y",
    inner: {
      doc: "deep"
    },
    tags: [
      "x",
      "z"
    ]
  },
  tags: [
    "a",
    "b"
  ]
};"""
        in parse(text).normalized().text
    )


def test_the_settings_of_one_message_are_merged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting compared all those before it: a schema of 39 KB took 4 s."""
    join = Mock(wraps=option_text.joined)
    monkeypatch.setattr(option_text, "joined", join)
    text = EXTENSIONS + "".join(f'option (meta).tags = "{number}";' for number in range(100))
    assert parse(text).normalized().text.count('    "') == 100
    assert join.call_count == 1
