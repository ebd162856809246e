"""Columns of JSON accept exactly the rows that validation one by one accepts."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace.schema.codec.error import InvalidRow
from tailrace.schema.codec.json_column import ObjectReader, arrow_fields
from tailrace.schema.codec.json_proof import make_proof
from tailrace.schema.codec.json_text import read_value
from tailrace.schema.error import CodecError
from tailrace.schema.json_schema import parse

FRAME = b"\0\0\0\0\x01"
NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(-3, 3)


def _optional_types(kind: str) -> Any:
    return st.sampled_from([kind, [kind, "null"], ["null", kind]])


NUMBERS = st.fixed_dictionaries(
    {"type": st.one_of(_optional_types("integer"), _optional_types("number"))},
    optional={
        "minimum": SMALL,
        "maximum": SMALL,
        "exclusiveMinimum": SMALL,
        "exclusiveMaximum": SMALL,
        "title": st.text(),
    },
)
STRINGS = st.fixed_dictionaries(
    {"type": _optional_types("string")},
    optional={
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "enum": st.lists(st.sampled_from(["", "x", "xy"]), min_size=1, unique=True),
    },
)
SCALARS = st.one_of(NUMBERS, STRINGS, st.fixed_dictionaries({"type": _optional_types("boolean")}), st.just(True))


def _objects(values: Any, kinds: Any = None) -> Any:
    return st.fixed_dictionaries(
        {
            "type": _optional_types("object") if kinds is None else kinds,
            "properties": st.dictionaries(NAMES, values, max_size=3),
        },
        optional={"required": st.lists(NAMES, unique=True), "additionalProperties": st.booleans()},
    )


def _arrays(items: Any) -> Any:
    return st.fixed_dictionaries(
        {"type": _optional_types("array"), "items": items},
        optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 2)},
    )


def _or_null(schemas: Any) -> Any:
    return schemas.map(lambda schema: {"oneOf": [{"type": "null"}, schema]})


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(_arrays(inner), _objects(inner), _or_null(inner)), max_leaves=5)
SCHEMAS = _objects(VALUES, st.just("object"))
ROWS = st.dictionaries(
    NAMES,
    st.recursive(
        st.none() | st.booleans() | SMALL | st.just(1.5) | st.sampled_from(["", "x", "xy", "null", "\u00e9\u00e9"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


def first_fault(schema: Any, texts: list[bytes]) -> int | None:
    for row, text in enumerate(texts):
        try:
            read_value(text, schema)
        except CodecError:
            return row
    return None


@given(SCHEMAS, st.lists(ROWS, min_size=1, max_size=4))
@example({"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "array", "items": {}}]}}}, [{"a": [None, None]}])
@example({"properties": {"a": {"type": "object", "properties": {}}}}, [{"a": {}}, {}, {"a": {"b": {}}}])
def test_a_column_is_valid_if_each_row_is(document: Any, rows: list[Any]) -> None:
    schema = parse(json.dumps(document), {})
    texts = [json.dumps(row).encode() for row in rows]
    reader = ObjectReader(arrow_fields(document), [(b"", schema)], "value")
    found: int | None = None
    try:
        reader.read(pa.array([FRAME + text for text in texts]), 0)
    except InvalidRow as error:
        found = error.row
    except CodecError:
        return  # valid rows whose types Arrow cannot hold in one column
    assert found == first_fault(schema, texts)


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        ({"type": "integer", "minimum": 1}, 1),
        ({"type": "number", "exclusiveMaximum": 2}, 1.5),
        ({"type": "string", "minLength": 1, "maxLength": 2, "format": "date"}, "xy"),
        ({"type": ["string", "null"], "enum": ["a"]}, "a"),
        ({"oneOf": [{"type": "null", "title": "Not included"}, {"type": "integer"}]}, 1),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1]),
        ({"type": "object", "properties": {"b": {"type": "boolean"}}, "additionalProperties": False}, {"b": True}),
    ],
)
def test_usual_schemas_are_proven_by_columns(schema: Any, row: Any) -> None:
    document = {"type": "object", "properties": {"a": schema}}
    proof = make_proof(document)
    assert proof is not None
    rows = pa.array([{"a": row}], pa.struct(arrow_fields(document)) if arrow_fields(document) else None)
    assert proof.check(rows, pa.array([False])).to_pylist() == [True]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/definitions/a"},
        {"type": "string", "pattern": "^a"},
        {"type": ["string", "integer"]},
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        {"type": "integer", "maximum": 2**60},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"oneOf": [{"type": "null"}, {"type": ["integer", "null"]}]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"const": 1},
        False,
    ],
)
def test_other_schemas_are_not(schema: Any) -> None:
    assert make_proof({"properties": {"a": schema}}) is None
