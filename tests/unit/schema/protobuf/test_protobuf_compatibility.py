"""Which changes of a Protobuf schema break readers, compared with the verdicts of Confluent's registry."""

import pytest
from tests.unit.schema.protobuf.case import Case, found
from tests.unit.schema.protobuf.field_case import FIELD_CASES, LABEL_CASES
from tests.unit.schema.protobuf.imported_case import IMPORT_CASES, KNOWN_CASES, PROTO2_CASES
from tests.unit.schema.protobuf.message_case import ENUM_CASES, MAP_CASES, MESSAGE_CASES
from tests.unit.schema.protobuf.oneof_case import ONEOF_CASES

from tailrace.schema.protobuf import ProtobufSchema, parse

CASES = [
    *FIELD_CASES,
    *LABEL_CASES,
    *ONEOF_CASES,
    *MESSAGE_CASES,
    *ENUM_CASES,
    *MAP_CASES,
    *IMPORT_CASES,
    *KNOWN_CASES,
    *PROTO2_CASES,
]

GROUPS_ARE_MESSAGES_IN_DESCRIPTORS = {
    "a group is added",
    "a field of a group changes its type",
    "a group becomes a message",
    "a group of a oneof is removed",
}
"""Confluent's registry reads a group of a descriptor as a message, and does not look at a group of a text."""


def test_there_are_more_cases_than_were_asked_for() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_directions(case: Case) -> None:
    old, new = case.schemas()
    assert found(new, old) == case.new_reads_old
    assert found(old, new) == case.old_reads_new


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_normal_form_is_judged_alike(case: Case) -> None:
    old, new = case.schemas()
    assert found(new.normalized(), old.normalized()) == case.new_reads_old
    assert found(old.normalized(), new.normalized()) == case.old_reads_new


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in GROUPS_ARE_MESSAGES_IN_DESCRIPTORS], ids=lambda case: case.name
)
def test_descriptors_are_judged_alike(case: Case) -> None:
    """A descriptor has the entry of a map as a message of its own, so the kinds are the same and the paths are more."""
    old, new = (schema.formatted("serialized") for schema in case.schemas())
    reader, writer = parse(new, case.imports(case.new_imports)), parse(old, case.imports(case.old_imports))
    assert kinds(found(reader, writer)) == kinds(case.new_reads_old)
    assert kinds(found(writer, reader)) == kinds(case.old_reads_new)


def kinds(differences: list[str]) -> set[str]:
    return {difference.split()[0] for difference in differences}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_schema_reads_itself(case: Case) -> None:
    for schema in case.schemas():
        assert found(schema, schema) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.released], ids=lambda case: case.name)
def test_the_release_differs_only_where_fields_enter_or_leave_oneofs(case: Case) -> None:
    """Confluent's newer source compares fields by number also across oneofs, which release 8.3.1 did not."""
    assert case in ONEOF_CASES
    assert case.released != (case.new_reads_old, case.old_reads_new)


SEQUENCES: dict[str, tuple[list[str], list[list[str]], list[list[str]]]] = {
    "each step and the whole way are compatible": (
        [
            "message M { int32 a = 1; }",
            "message M { int64 a = 1; string b = 2; }",
            "message M { bool a = 1; bytes b = 2; M c = 3; }",
        ],
        [[], []],
        [[], []],
    ),
    "a number is used again after a pause": (
        [
            "message M { int32 a = 1; string b = 2; }",
            "message M { int32 a = 1; reserved 2; }",
            "message M { int32 a = 1; double b = 2; }",
        ],
        [[], []],
        [[], ["FIELD_SCALAR_KIND_CHANGED #/M/2"]],
    ),
    "two fields move into a oneof one after the other": (
        [
            "message M { int32 a = 1; string b = 2; }",
            "message M { string b = 2; oneof o { int32 a = 1; } }",
            "message M { oneof o { int32 a = 1; string b = 2; } }",
        ],
        [[], ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"]],
        [[], ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o", "MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"]],
    ),
    "a message comes back with another field": (
        [
            "message M { N n = 1; } message N { int32 a = 1; }",
            "message M { } message N { }",
            "message M { N n = 1; } message N { string a = 1; }",
        ],
        [[], []],
        [[], ["FIELD_SCALAR_KIND_CHANGED #/N/1"]],
    ),
    "a field of a oneof is lost on the way": (
        [
            "message M { oneof o { int32 a = 1; string b = 2; } }",
            "message M { int32 a = 1; string b = 2; }",
            "message M { int32 a = 1; }",
        ],
        [[], []],
        [[], ["ONEOF_FIELD_REMOVED #/M/o/2"]],
    ),
}
"""Versions in order; what breaks against the version before, and what breaks against any version before."""


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str) -> None:
    texts, from_last, from_any = SEQUENCES[name]
    versions = [parse(f'syntax = "proto3"; {text}') for text in texts]
    for place in range(1, len(versions)):
        assert found(versions[place], versions[place - 1]) == from_last[place - 1]
        assert sorted({each for old in versions[:place] for each in found(versions[place], old)}) == from_any[place - 1]


def schema(text: str) -> ProtobufSchema:
    return parse(f'syntax = "proto2"; {text}')


OLD = """package shop;
message Order { required int32 id = 1; optional string note = 2; optional Item item = 3; map<string, int32> counts = 4;
  oneof payment { string card = 5; string cash = 6; } optional int32 x = 7; optional int32 y = 8; optional int32 z = 9;
  oneof way { int32 mail = 10; } optional int32 visit = 11; message Old { } }
message Item { optional int32 id = 1; }"""
NEW = """package store;
message Order { optional double note = 2; optional string item = 3; map<string, string> counts = 4;
  oneof payment { string card = 5; } oneof pair { int32 x = 7; int32 y = 8; } repeated int32 z = 9;
  oneof way { int32 mail = 10; int32 visit = 11; } required bool paid = 12; }
message Item { optional int32 id = 1; }"""

SENTENCES = """\
The package changed from shop to store
Several fields were moved into oneof pair of message Order, where they exclude each other: Field x (number 7), Field y (number 8)
Fields that could be set together exclude each other now in oneof way of message Order: Field mail (number 10), Field visit (number 11)
Field id (number 1) of message Order was required and was removed
Field note (number 2) of message Order changed from string to double, which is written in another way
Field item (number 3) of message Order changed from message shop.Item to string
The values of field counts (number 4) of message Order changed from int32 to string, which is written in another way
Field cash (number 6) of message Order was removed from oneof payment
Field z (number 9) of message Order is a number and changed from optional to repeated
Field paid (number 12) of message Order is required and was added
Message Order.Old was removed"""  # noqa: E501


def test_every_difference_has_a_sentence_that_names_message_field_and_number() -> None:
    messages = [difference.message for difference in schema(NEW).differences(schema(OLD))]
    assert "\n".join(messages) == SENTENCES


def test_a_field_of_an_imported_message_says_which_message_breaks() -> None:
    text = 'syntax = "proto3"; import "n.proto"; message M { p.N n = 1; }'
    old = parse(text, {"n.proto": 'syntax = "proto3"; package p; message N { int32 a = 1; }'})
    new = parse(text, {"n.proto": 'syntax = "proto3"; package p; message N { string a = 1; }'})
    assert [(difference.path, difference.message) for difference in new.differences(old)] == [
        ("#/N/1", "Field a (number 1) of message N changed from int32 to string, which is written in another way"),
        ("#/M/1", "Field n (number 1) of message M has type p.N, and that message cannot be read any more"),
    ]


def imported(first: str, count: int, fields: int) -> ProtobufSchema:
    """Return a schema that imports messages of which each holds the next one in several fields."""
    chain = [
        f"message N{place} {{ {' '.join(f'N{place + 1} f{number} = {number};' for number in range(1, fields + 1))} }}"
        for place in range(count)
    ]
    text = f'syntax = "proto3"; package p; {" ".join(chain)} message N{count} {{ {first} a = 1; }}'
    return parse('syntax = "proto3"; import "n.proto"; message M { p.N0 n = 1; }', {"n.proto": text})


@pytest.mark.parametrize(("count", "fields"), [(3_000, 1), (60, 3)], ids=["long chain", "many ways to one message"])
def test_imported_messages_are_compared_once_and_without_recursion(count: int, fields: int) -> None:
    differences = found(imported("string", count, fields), imported("int32", count, fields))
    assert f"FIELD_SCALAR_KIND_CHANGED #/N{count}/1" in differences
    assert "FIELD_NAMED_TYPE_CHANGED #/M/1" in differences
    assert len(differences) == 2 + count * fields


def test_imported_messages_that_hold_each_other_are_compared() -> None:
    text = 'syntax = "proto3"; import "n.proto"; message M { p.A a = 1; }'
    files = [
        f'syntax = "proto3"; package p; message A {{ B b = 1; }} message B {{ A a = 1; {kind} c = 2; }}'
        for kind in ("int32", "string")
    ]
    old, new = (parse(text, {"n.proto": file}) for file in files)
    assert "FIELD_NAMED_TYPE_CHANGED #/M/1" in found(new, old)
    assert "FIELD_SCALAR_KIND_CHANGED #/B/2" in found(new, old)
