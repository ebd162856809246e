"""Arrow columns to Avro values: both twins, read back by fastavro and by the decoder."""

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.utils import generate_many
from tests.unit.records.arrow.arrow_twin import TWINS
from tests.unit.records.arrow.test_avro_decode import SCHEMAS, column_of, decoder_of, field, record, written

from tailrace.records.arrow.avro_decode import AvroValueError
from tailrace.records.arrow.avro_encode import AvroEncoder
from tailrace.records.arrow.column import ColumnTypeError
from tailrace.records.avro.parser import Parser


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAILRACE_PURE_PYTHON", "1" if request.param == "python" else "0")
    return str(request.param)


def encoder_of(schema: Any) -> AvroEncoder:
    return AvroEncoder(Parser(is_new=True).parse(json.dumps(schema)), schema_id=7)


def made_values(schema: Any, count: int = 60) -> list[Any]:
    random.seed(3)
    return list(generate_many(fastavro.parse_schema(json.loads(json.dumps(schema))), count))


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_was_decoded_is_encoded_to_the_same_bytes(name: str, twin: str) -> None:
    schema = SCHEMAS[name]
    column = column_of([written(schema, value) for value in made_values(schema)])
    assert encoder_of(schema).encode(decoder_of(schema).decode(column)).to_pylist() == column.to_pylist()


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "unions"])
def test_fastavro_reads_the_values(name: str, twin: str) -> None:
    schema = SCHEMAS[name]
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    rows = decoder_of(schema).decode(column_of([written(schema, value) for value in made_values(schema)]))
    values = encoder_of(schema).encode(rows).to_pylist()
    expected = [
        fastavro.schemaless_reader(io.BytesIO(written(schema, value)), parsed, None) for value in made_values(schema)
    ]
    assert [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) for value in values] == expected


@pytest.mark.parametrize("name", SCHEMAS)
def test_slices(name: str, twin: str) -> None:
    schema = SCHEMAS[name]
    rows = decoder_of(schema).decode(column_of([written(schema, value) for value in made_values(schema)]))
    whole = encoder_of(schema).encode(rows).to_pylist()
    assert encoder_of(schema).encode(rows[13:37]).to_pylist() == whole[13:37]
    assert encoder_of(schema).encode(rows[:0]).to_pylist() == []


def test_columns_are_cast(twin: str) -> None:
    schema = record(
        field("number", "long"),
        field("kind", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field("at", {"type": "long", "logicalType": "timestamp-micros"}),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        field("missing", ["null", "string"]),
    )
    batch = pa.record_batch(
        {
            "kind": pa.array(["B", "A"]).dictionary_encode(),
            "number": pa.array([1, -2], pa.int16()),
            "at": pa.array([5, 6], pa.timestamp("ms", "UTC")),
            "price": pa.array([Decimal("-1.28"), Decimal("327.68")]),
            "unused": pa.array([1, 2]),
        }
    )
    assert encoder_of(schema).encode(batch).to_pylist() == [
        b"\x00\x00\x00\x00\x07" + b"\x02\x02\x90\x4e\x02\x80\x00",
        b"\x00\x00\x00\x00\x07" + b"\x03\x00\xe0\x5d\x06\x00\x80\x00\x00",
    ]


def test_null_rows(twin: str) -> None:
    rows = pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int32())]))
    values = encoder_of(record(field("a", "int"))).encode(rows)
    assert [value is None for value in values.to_pylist()] == [False, True, False]
    assert encoder_of(["null", "int"]).encode(pa.array([None, 1])).to_pylist() == [
        b"\x00\x00\x00\x00\x07\x00",
        b"\x00\x00\x00\x00\x07\x02\x02",
    ]


def test_a_null_that_the_schema_does_not_allow_names_its_row(twin: str) -> None:
    with pytest.raises(AvroValueError, match=r"row 1: .* cannot be null is null"):
        encoder_of(record(field("a", "int"))).encode(pa.record_batch({"a": [1, None]}))


@pytest.mark.parametrize(("first", "second"), [(None, None), (1, "s")])
def test_a_union_has_one_member(first: int | None, second: str | None, twin: str) -> None:
    kind = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    with pytest.raises(AvroValueError, match=r"row 0: .* no such branch"):
        encoder_of(["int", "string"]).encode(pa.array([{"member0": first, "member1": second}], kind))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"b": [1]}, "the column 'a' is missing"),
        ({"a": ["x"]}, "column 'a' is string; the schema needs int32"),
        ({"a": [2**40]}, "column 'a' is int64; the schema needs int32"),
    ],
)
def test_wrong_columns_are_named(columns: dict[str, Any], message: str, twin: str) -> None:
    with pytest.raises(ColumnTypeError, match=message):
        encoder_of(record(field("a", "int"))).encode(pa.record_batch(columns))


def test_an_unknown_symbol_is_named(twin: str) -> None:
    with pytest.raises(ColumnTypeError, match="'Z' is not a symbol"):
        encoder_of({"type": "enum", "name": "E", "symbols": ["A"]}).encode(pa.array(["A", None, "Z"]))
