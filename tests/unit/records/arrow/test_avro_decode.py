"""Avro values to Arrow columns: both twins, on values that fastavro wrote, whole and damaged."""

import datetime
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

from tailrace.records.arrow.avro_decode import AvroDecoder, AvroValueError, schema_ids
from tailrace.records.arrow.avro_plan import UnsupportedAvroType
from tailrace.records.avro.parser import Parser

FRAME = b"\x00\x00\x00\x00\x07"


def field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


SCHEMAS: dict[str, Any] = {
    "primitives": record(
        *[field(kind[0], kind) for kind in ("boolean", "int", "long", "float", "double", "string")], field("y", "bytes")
    ),
    "optional": record(
        *[field(f"f{n}", ["null", kind]) for n, kind in enumerate(("boolean", "int", "double", "string", "bytes"))],
        field("last", ["long", "null"]),
    ),
    "named": record(
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}),
        field("o", ["null", "E"]),
        field("x", {"type": "fixed", "name": "F", "size": 3}),
        field("z", ["F", "null"]),
    ),
    "nested": record(
        field("r", record(field("a", "int"), field("b", ["null", record(field("c", "string"), name="T")]), name="S")),
        field("o", ["null", "S"]),
        field("l", {"type": "array", "items": ["null", "S"]}),
        field("m", {"type": "map", "values": {"type": "array", "items": "long"}}),
        field("n", ["null", {"type": "map", "values": ["null", "string"]}]),
        field("d", {"type": "array", "items": {"type": "array", "items": "boolean"}}),
    ),
    "unions": record(
        field("u", ["int", "string"]),
        field("v", ["null", "boolean", {"type": "array", "items": "int"}]),
        field("w", {"type": "array", "items": ["double", "null", "bytes"]}),
    ),
    "nothing": record(
        field("n", "null"), field("e", record(name="Empty")), field("l", {"type": "array", "items": "null"})
    ),
    "a long": "long",
    "an array": {"type": "array", "items": ["null", "string"]},
}


def column_of(values: list[bytes | None]) -> Any:
    return pa.array([None if value is None else FRAME + value for value in values], pa.binary())


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoder_of(schema: Any) -> AvroDecoder:
    return AvroDecoder(Parser(is_new=True).parse(json.dumps(schema)), schema_id=7)


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAILRACE_PURE_PYTHON", "1" if request.param == "python" else "0")
    return str(request.param)


def in_both(monkeypatch: pytest.MonkeyPatch, schema: Any, column: Any) -> list[Any]:
    """Decode with both twins; an error becomes its text."""
    results: list[Any] = []
    for is_pure in "01":
        monkeypatch.setenv("TAILRACE_PURE_PYTHON", is_pure)
        try:
            array = decoder_of(schema).decode(column)
            array.validate(full=True)
            results.append((array.type, repr(array.to_pylist())))
        except AvroValueError as error:
            results.append(str(error))
    return results


@pytest.mark.parametrize("name", SCHEMAS)
def test_values_that_fastavro_wrote(name: str, twin: str) -> None:
    random.seed(1)
    schema = SCHEMAS[name]
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    values = list(generate_many(parsed, 50))
    array = decoder_of(schema).decode(column_of([written(schema, value) for value in values]))
    array.validate(full=True)
    expected = [fastavro.schemaless_reader(io.BytesIO(written(schema, value)), parsed, None) for value in values]
    if name != "unions":
        assert [plain(value) for value in array.to_pylist()] == expected
    assert len(array) == 50


def plain(value: Any) -> Any:
    """Return a value of Arrow as fastavro has it: maps are dictionaries."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: {} if key in ("m", "n") and item == [] else plain(item) for key, item in value.items()}
    return value


def test_unions_become_structs(twin: str) -> None:
    rows = [{"u": 1, "v": None, "w": [1.5, None, b"x"]}, {"u": "s", "v": True, "w": []}, {"u": 2, "v": [3], "w": []}]
    array = decoder_of(SCHEMAS["unions"]).decode(column_of([written(SCHEMAS["unions"], row) for row in rows]))
    assert array.to_pylist() == [
        {
            "u": {"member0": 1, "member1": None},
            "v": None,
            "w": [{"member0": 1.5, "member1": None}, None, {"member0": None, "member1": b"x"}],
        },
        {"u": {"member0": None, "member1": "s"}, "v": {"member0": True, "member1": None}, "w": []},
        {"u": {"member0": 2, "member1": None}, "v": {"member0": None, "member1": [3]}, "w": []},
    ]


def test_logical_types(twin: str) -> None:
    decimal = {"logicalType": "decimal", "precision": 10, "scale": 2}
    schema = record(
        field("date", {"type": "int", "logicalType": "date"}),
        field("time", {"type": "long", "logicalType": "time-micros"}),
        field("at", {"type": "long", "logicalType": "timestamp-millis"}),
        field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        field("bytes", {"type": "bytes", **decimal}),
        field("fixed", {"type": "fixed", "name": "F", "size": 20, **decimal}),
    )
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 5000)
    row = {
        "date": moment.date(),
        "time": moment.time(),
        "at": moment.replace(tzinfo=datetime.UTC),
        "local": moment,
        "bytes": Decimal("-12.34"),
        "fixed": Decimal("99999999.99"),
    }
    array = decoder_of(schema).decode(column_of([written(schema, row)]))
    assert array.to_pylist() == [row]
    assert array.type.field("bytes").type == pa.decimal128(10, 2)


def test_null_values_and_slices(twin: str) -> None:
    values = [written("long", number) for number in range(5)]
    column = column_of([values[0], None, values[2], values[3], None])
    assert decoder_of("long").decode(column[1:4]).to_pylist() == [None, 2, 3]
    assert decoder_of("long").decode(column[:0]).to_pylist() == []
    assert decoder_of("long").decode(pa.chunked_array([column[:1], column[3:]])).to_pylist() == [0, 3, None]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ("long", b"", "row 1: not a valid Avro value: it ends before its schema does"),
        ("long", b"\x02\x02", "it has bytes after its end"),
        ("long", b"\xff" * 9 + b"\x02", "a number is out of range"),
        ("int", b"\xff\xff\xff\xff\x7f", "a number is out of range"),
        ("string", b"\x01", "a length is negative"),
        ("string", b"\x04\xff\xff", "a string is not UTF-8"),
        (["null", "int"], b"\x04", "a union has no such branch"),
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "an enum has no such symbol"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "it ends before its schema"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "more than 2 GiB"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, b"\x22\x01" + bytes(16), "more than 16 bytes"),
    ],
)
def test_wrong_values_are_reported_with_their_row(schema: Any, value: bytes, message: str, twin: str) -> None:
    with pytest.raises(AvroValueError) as caught:
        decoder_of(schema).decode(column_of([None, value]))
    assert caught.value.row == 1
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "value", [b"", b"\x00\x00\x00\x07\x02", b"\x01\x00\x00\x00\x07\x02", b"\x00\x00\x00\x00\x08\x02"]
)
def test_other_frames_are_rejected(value: bytes, twin: str) -> None:
    with pytest.raises(AvroValueError, match="does not begin with 0 and the id"):
        decoder_of("long").decode(pa.array([value]))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_twins_agree_on_damaged_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(2)
    schema = SCHEMAS[name]
    for value in generate_many(fastavro.parse_schema(json.loads(json.dumps(schema))), 4):
        data = written(schema, value)[:200]
        damaged = [data[:size] for size in range(len(data) + 1)]
        for _ in range(100):
            mutated = bytearray(data or b"\x00")
            mutated[random.randrange(len(mutated))] = random.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
            damaged.append(bytes(mutated))
        for one in damaged:
            native, python = in_both(monkeypatch, schema, column_of([one]))
            assert native == python


def test_a_recursive_schema_is_not_supported() -> None:
    with pytest.raises(UnsupportedAvroType, match="'R' contains itself"):
        decoder_of(record(field("next", ["null", "R"])))


def test_schema_ids() -> None:
    column = pa.array([FRAME, None, b"\x00\x00\x00\x01\x00x", FRAME + b"y"], pa.binary())
    assert schema_ids(column) == [7, 256]
    with pytest.raises(AvroValueError, match="row 1"):
        schema_ids(pa.array([FRAME, b"\x01abcd"], pa.binary()))
