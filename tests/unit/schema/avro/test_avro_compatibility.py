"""Compatibility: the table of cases in both directions, sequences of versions, and what the differences say."""

import json
from pathlib import Path

import pytest
from tests.unit.schema.avro.compatibility_case import (
    BRANCH,
    CASES,
    DEFAULT,
    SYMBOLS,
    TYPE,
    Case,
    array,
    decimal,
    enum,
    field,
    map_of,
    record,
)

from tailrace.records.avro.type import Json
from tailrace.schema.avro import AvroSchema, compatibility, parse
from tailrace.schema.avro.compatibility import DIFFERENCES_MAX, PAIRS_MAX
from tailrace.schema.language import Difference

JAVA: dict[str, tuple[str, str]] = json.loads(Path(__file__).with_name("java_verdicts.json").read_text())
"""The kinds that SchemaCompatibility of Avro 1.12.1 for Java reports for each case, or ERROR if it fails."""

OTHER_THAN_JAVA = {
    "another scale": "Java ignores logical types; the specification does not",
    "a larger precision": "Java ignores logical types; the specification does not",
    "fixed decimals of another scale": "Java ignores logical types; the specification does not",
    "a decimal in an optional field": "Java ignores logical types; the specification does not",
    "decimals in an array": "Java ignores logical types; the specification does not",
    "an enum's default is no field's default": "Java compares the enum with the writer's record: TYPE_MISMATCH",
    "a field's alias that the writer has too": "Java throws an exception, so Confluent's registry names no kind",
}


def schema(value: Json) -> AvroSchema:
    return parse(json.dumps(value))


def kinds(reader: Json, writer: Json) -> str:
    return " ".join(difference.kind for difference in schema(reader).differences(schema(writer)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert kinds(case.one, case.other) == case.one_reads
    assert kinds(case.other, case.one) == case.other_reads


def test_cases_are_many_and_have_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 80


def test_java_agrees() -> None:
    found = {case.name for case in CASES if [case.one_reads, case.other_reads] != list(JAVA[case.name])}
    assert found == set(OTHER_THAN_JAVA)


A, B, C = field("a", "int"), field("b", "string", default=""), field("c", "int")

SEQUENCES: list[tuple[str, list[Json], dict[tuple[int, int], str]]] = [
    (
        "a field is removed and comes back without a default",
        [record(A, C), record(A), record(A, C)],
        {(2, 1): DEFAULT, (0, 1): DEFAULT},
    ),
    (
        "a default is removed after a version: only the first reader's records break",
        [record(A), record(A, B), record(A, field("b", "string"))],
        {(2, 0): DEFAULT},
    ),
    ("a type becomes wider twice", ["int", "long", "double"], {(0, 1): TYPE, (1, 2): TYPE, (0, 2): TYPE}),
    ("a string becomes bytes and back", ["string", "bytes", "string"], {}),
    (
        "a field is renamed twice, the alias of the first name is lost",
        [record(A), record(field("b", "int", aliases=["a"])), record(field("d", "int", aliases=["b"]))],
        {(2, 0): DEFAULT, (0, 1): DEFAULT, (1, 2): DEFAULT, (0, 2): DEFAULT},
    ),
    (
        "a field is renamed twice, both aliases are kept",
        [record(A), record(field("b", "int", aliases=["a"])), record(field("d", "int", aliases=["b", "a"]))],
        {(0, 1): DEFAULT, (1, 2): DEFAULT, (0, 2): DEFAULT},
    ),
    (
        "an enum's default comes one version too late",
        [enum("X", "Y"), enum("X", "Y", default="X"), enum("X", default="X")],
        {},
    ),
    (
        "symbols come and go without a default",
        [enum("X"), enum("X", "Y"), enum("X")],
        {(0, 1): SYMBOLS, (2, 1): SYMBOLS},
    ),
    (
        "a union grows",
        [["null", "int"], ["null", "int", "string"], ["null", "long", "string"]],
        {(0, 1): BRANCH, (1, 2): BRANCH, (0, 2): f"{BRANCH} {BRANCH}"},
    ),
    (
        "a decimal changes its scale and changes back",
        [decimal(9, 2), decimal(9, 3), decimal(9, 2)],
        {(1, 0): TYPE, (2, 1): TYPE, (0, 1): TYPE, (1, 2): TYPE},
    ),
]
"""Versions, and for (reader, writer) what breaks. Pairs that are not named fit."""


@pytest.mark.parametrize(("versions", "broken"), [case[1:] for case in SEQUENCES], ids=[case[0] for case in SEQUENCES])
def test_sequence(versions: list[Json], broken: dict[tuple[int, int], str]) -> None:
    pairs = [(reader, writer) for reader in range(3) for writer in range(3)]
    found = {pair: kinds(versions[pair[0]], versions[pair[1]]) for pair in pairs}
    assert {pair: what for pair, what in found.items() if what} == broken


def test_a_difference_names_the_place_and_the_field() -> None:
    reader = record(field("lines", array(record(field("price", "int"), name="Line"))), name="shop.Order")
    writer = record(field("lines", array(record(field("price", "string"), name="Line"))), name="shop.Order")
    assert schema(reader).differences(schema(writer)) == [
        Difference(
            TYPE,
            "/fields/0/type/items/fields/0/type",
            "Field 'price' of record 'shop.Line': string cannot be read as int",
        )
    ]


@pytest.mark.parametrize(
    ("reader", "writer", "path", "message"),
    [
        (record(A), record(), "/fields/0", "it has no default value, and the writer's schema lacks the field"),
        (array(enum("X")), array(enum("Y")), "/items/symbols", "An item of the schema: the reader's enum 'E' has no"),
        (map_of("int"), map_of("null"), "/values", "A value of the schema: null cannot be read as int"),
        (["null", record(A)], ["null", record()], "/1", "Field 'a' of record 'R': it has no default"),
        (["null", decimal(9, 2)], decimal(9, 3), "/", "decimal(9, 3) cannot be read as decimal(9, 2)"),
        (record(name="S"), record(), "/name", "'S' has neither the name nor an alias of the writer's record 'R'"),
    ],
)
def test_paths_and_messages(reader: Json, writer: Json, path: str, message: str) -> None:
    (difference,) = schema(reader).differences(schema(writer))
    assert difference.path == path
    assert message.lower() in difference.message.lower()


def test_a_recursive_type_is_reported_once() -> None:
    fields = [field("left", ["null", "R"]), field("right", map_of("R")), field("a", "int")]
    assert kinds(record(*fields), record(*fields[:2])) == DEFAULT


def test_every_field_with_the_same_problem_is_reported() -> None:
    reader = record(field("x", "int"), field("y", "int"))
    assert kinds(reader, record(field("x", "string"), field("y", "string"))) == f"{TYPE} {TYPE}"


def test_an_assumption_about_a_recursive_type_is_not_kept_when_it_proves_wrong() -> None:
    """While R is compared, S fits as long as R does. R does not, so S may not count as a pair that fits."""

    def schemas(*extra: Json) -> Json:
        inner = record(field("r", ["null", "R"]), name="S")
        return [record(field("s", inner), *extra), "S", "null"]

    assert kinds(schemas(A), schemas()) == f"{BRANCH} {BRANCH}"


def test_differences_are_limited() -> None:
    reader = record(*[field(f"f{index}", "int") for index in range(1000)])
    assert len(schema(reader).differences(schema(record()))) == DIFFERENCES_MAX


def test_large_unions_are_cheap() -> None:
    """Each branch is compared with those of its name alone: all pairs would be 9 million."""
    union: Json = [record(field("x", "int"), name=f"R{index}") for index in range(3000)]
    assert kinds(union, union) == ""


@pytest.mark.parametrize(
    ("pairs_max", "record_count"), [(1_000, 40), pytest.param(PAIRS_MAX, 700, marks=pytest.mark.slow)]
)
def test_schemas_that_would_take_forever_are_not_called_compatible(
    pairs_max: int, record_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compatibility, "PAIRS_MAX", pairs_max)
    union: Json = [record(field(f"f{index}", "int"), name=f"n{index}.R") for index in range(record_count)]
    (difference,) = schema(union).differences(schema(union))
    assert f"cannot be compared: more than {pairs_max} pairs" in difference.message
