"""Columns of one schema read with another: what fastavro reads by row is the reference."""

import io
import json
import random
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.utils import generate_many

from tailrace.records.arrow.avro_decode import AvroDecoder
from tailrace.records.arrow.avro_plan import UnsupportedAvroType
from tailrace.records.avro.parser import Parser
from tailrace.records.avro.type import Array, Map, Record, Type, Union
from tailrace.schema.avro.column_resolution import ColumnResolver, UnresolvedValue

FRAME = b"\x00\x00\x00\x00\x07"
ROW_COUNT = 40


def parse(schema: Any) -> Type:
    return Parser(is_new=True).parse(json.dumps(schema))


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def timestamp(unit: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 3}
INNER_1 = record(field("x", "int"), field("y", "string"), name="I")
INNER_2 = record(field("y", "string"), field("x", "long"), field("z", "int", default=7), name="I")

WRITER = record(field("a", "int"), field("b", "string"))
PAIRS: dict[str, tuple[Any, Any]] = {
    "the same": (WRITER, WRITER),
    "field dropped": (WRITER, record(field("b", "string"))),
    "all fields dropped": (WRITER, record()),
    "fields reordered": (WRITER, record(field("b", "string"), field("a", "int"))),
    "field renamed by alias": (WRITER, record(field("c", "int", aliases=["a"]))),
    "record renamed by alias": (WRITER, record(field("a", "int"), name="S", aliases=["R"])),
    "int to long": ("int", "long"),
    "int to float": ("int", "float"),
    "int to double": ("int", "double"),
    "long to float": ("long", "float"),
    "long to double": ("long", "double"),
    "float to double": ("float", "double"),
    "string to bytes": ("string", "bytes"),
    "bytes to string": ("bytes", "string"),
    "promotions in a record": (
        record(field("a", "int"), field("b", ["null", "int"]), field("c", listed("float"))),
        record(field("a", "double"), field("b", ["null", "long"]), field("c", listed("double"))),
    ),
    "made optional": (WRITER, record(field("a", ["null", "int"]), field("b", ["string", "null"]))),
    "made optional and promoted": (WRITER, record(field("a", ["null", "long"], default=None))),
    "order of an optional": (record(field("a", ["null", "int"])), record(field("a", ["int", "null"]))),
    "nested record": (
        record(field("r", INNER_1), field("o", ["null", "I"]), field("l", listed("I")), field("m", mapped("I"))),
        record(field("r", INNER_2), field("o", ["null", "I"]), field("l", listed("I")), field("m", mapped("I"))),
    ),
    "items of items": (listed(listed(listed("int"))), listed(listed(listed("long")))),
    "values of values": (mapped(mapped("int")), mapped(mapped("double"))),
    "optional items": (listed(["null", "int"]), listed(["null", "long"])),
    "optional array": (["null", listed("int")], ["null", listed("double")]),
    "union to wider union": (["int", "string"], ["string", "int", "boolean"]),
    "union with null": (["null", "int", "string"], ["string", "null", "int"]),
    "union to promoted union": (["int", "string"], ["string", "long"]),
    "union to one type": (["int", "long"], "double"),
    "one type to union": ("int", ["string", "int"]),
    "record to union": (INNER_1, ["null", "string", INNER_2]),
    "union of records": (
        [INNER_1, record(field("n", "int"), name="J")],
        [record(field("n", "long"), name="J"), INNER_2],
    ),
    "union in an array": (listed(["int", "string"]), listed(["null", "string", "int"])),
    "single branch": (["int"], "long"),
    "to single branch": ("int", ["long"]),
    "more symbols": (enum("A", "B"), enum("C", "B", "A")),
    "symbol to default": (enum("A", "B", "C"), enum("A", "Z", default="Z")),
    "optional enum to default": (
        record(field("e", ["null", enum("A", "B")])),
        record(field("e", ["null", enum("B", "Z", default="Z")])),
    ),
    "fixed": (record(field("f", FIXED)), record(field("f", FIXED), field("g", "F", default="\u00ff\u0000a"))),
    "null to optional": ("null", ["null", "int"]),
    "null field dropped": (record(field("n", "null"), field("a", "int")), record(field("a", "int"))),
    "timestamps keep their moment": (timestamp("millis"), timestamp("micros")),
    "decimal beside a new field": (
        record(field("d", DECIMAL)),
        record(field("d", DECIMAL), field("n", "int", default=1)),
    ),
    "default null": (WRITER, record(field("n", ["null", "int"], default=None))),
    "default number": (WRITER, record(field("n", "double", default=1), field("l", "long", default=-5))),
    "default text": (WRITER, record(field("n", "string", default="ä"), field("y", "bytes", default="\u00ff"))),
    "default enum": (WRITER, record(field("n", enum("A", "B"), default="B"))),
    "default array": (WRITER, record(field("n", listed("int"), default=[1, 2]), field("e", listed("int"), default=[]))),
    "default map": (WRITER, record(field("n", mapped("string"), default={"k": "v"}))),
    "default record": (WRITER, record(field("n", INNER_2, default={"y": "q", "x": 3, "z": 1}))),
    "default union": (WRITER, record(field("n", ["string", "int"], default="s"))),
    "default in items": (
        record(field("l", listed(record(field("a", "int"), name="K")))),
        record(field("l", listed(record(field("a", "int"), field("d", mapped("int"), default={"k": 1}), name="K")))),
    ),
}


def encoded(schema: Any, values: Sequence[Any]) -> list[bytes]:
    parsed, written = fastavro.parse_schema(json.loads(json.dumps(schema))), []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        written.append(out.getvalue())
    return written


def decoded(writer: Any, values: Sequence[bytes | None]) -> Any:
    column = pa.array([None if value is None else FRAME + value for value in values], pa.binary())
    return AvroDecoder(parse(writer), 7).decode(column)


def by_row(writer: Any, reader: Any, value: bytes) -> Any:
    schemas = [fastavro.parse_schema(json.loads(json.dumps(schema))) for schema in (writer, reader)]
    return fastavro.schemaless_reader(io.BytesIO(value), schemas[0], schemas[1])


def plain(type_: Type, value: Any) -> Any:
    """Return a value of Arrow as fastavro has it: maps are dictionaries, and a union is the member that is set."""
    if value is None:
        return None
    if isinstance(type_, Union):
        branches = [branch for branch in type_.branches if branch.kind != "null"]
        if len(branches) == 1 and len(type_.branches) > 1:
            return plain(branches[0], value)
        return next(
            plain(branch, item) for branch, item in zip(branches, value.values(), strict=True) if item is not None
        )
    if isinstance(type_, Record):
        return {field.name: plain(field.type, value[field.name]) for field in type_.fields}
    if isinstance(type_, Map):
        return {key: plain(type_.values, item) for key, item in value}
    return [plain(type_.items, item) for item in value] if isinstance(type_, Array) else value


def as_typed(type_: Type, value: Any) -> Any:
    """Return a value of fastavro with the reader's type: it keeps the text of defaults, and the digits of a long."""
    if isinstance(type_, Record):
        return {field.name: as_typed(field.type, value[field.name]) for field in type_.fields}
    if type_.kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1")
    return struct.unpack("f", struct.pack("f", value))[0] if type_.kind == "float" else value


def values_of(schema: Any) -> list[bytes]:
    random.seed(3)
    return encoded(schema, list(generate_many(fastavro.parse_schema(json.loads(json.dumps(schema))), ROW_COUNT)))


@pytest.mark.parametrize("name", PAIRS)
def test_a_column_has_the_values_that_fastavro_reads(name: str) -> None:
    writer, reader = PAIRS[name]
    given: dict[str, list[Any]] = {
        "bytes to string": [b"", b"a", "ä".encode()],
        "decimal beside a new field": [{"d": Decimal("-1.25")}],
    }
    values = encoded(writer, given[name]) if name in given else values_of(writer)
    column = decoded(writer, [None, *values, None])
    resolver = ColumnResolver(parse(reader), parse(writer))
    result = resolver.resolve(column)
    result.validate(full=True)
    assert result.type == resolver.type == AvroDecoder(parse(reader), 7).type
    expected = [as_typed(parse(reader), by_row(writer, reader, value)) for value in values]
    assert [plain(parse(reader), row) for row in result.to_pylist()] == [None, *expected, None]
    sliced = resolver.resolve(column[3:])
    assert sliced.to_pylist() == result.to_pylist()[3:]
    assert resolver.resolve(pa.chunked_array([column[:2], column[2:]])).to_pylist() == result.to_pylist()


@pytest.mark.parametrize(
    ("writer", "reader", "values", "row", "message"),
    [
        ("long", "int", [1], 0, "long cannot be read as int"),
        (WRITER, record(field("c", "int")), [{"a": 1, "b": ""}], 0, "field 'c' of record 'R': it has no default value"),
        (WRITER, record(field("a", "int"), name="S"), [{"a": 1, "b": ""}], 0, "neither the name nor an alias"),
        (
            record(field("n", ["null", "int"])),
            record(field("n", "int")),
            [{"n": 1}, {"n": 2}, {"n": None}, {"n": 3}],
            2,
            "null cannot be read as int",
        ),
        (["int", "string"], "long", [1, 2, 3, "s", "t"], 3, "string cannot be read as long"),
        (
            ["int", "string"],
            ["int", "boolean"],
            [1, "s"],
            1,
            "the reader's union has no branch for the writer's string",
        ),
        (enum("A", "B"), enum("A"), ["A", "A", "B", "B"], 2, "enum 'E' has no symbol 'B' and no default"),
        (listed(["null", "int"]), listed("int"), [[1], [], [2, 3], [4, None], [None]], 3, "null cannot be read as int"),
        (mapped(enum("A", "B")), mapped(enum("A")), [{"k": "A"}, {"k": "B"}], 1, "has no symbol 'B'"),
        ("bytes", "string", [b"a", b"\xff"], 1, "UTF8"),
        (FIXED, {**FIXED, "size": 4}, [b"abc"], 0, "has 4 bytes, the writer's 3"),
        (DECIMAL, {**DECIMAL, "scale": 3}, [Decimal("0.01")], 0, "precision and scale must be the same"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named(
    writer: Any, reader: Any, values: list[Any], row: int, message: str
) -> None:
    column = decoded(writer, [None, *encoded(writer, values)])
    resolver = ColumnResolver(parse(reader), parse(writer))
    with pytest.raises(UnresolvedValue) as caught:
        resolver.resolve(column)
    assert caught.value.row == row + 1
    assert message in str(caught.value)
    assert len(resolver.resolve(column[: row + 1])) == row + 1, "the rows before it fit"


def test_null_branches_below_absent_records_are_no_misfit() -> None:
    writer = record(field("o", ["null", record(field("n", ["null", "int"]), name="I")]))
    reader = record(field("o", ["null", record(field("n", "int"), name="I")]))
    resolver = ColumnResolver(parse(reader), parse(writer))
    values = encoded(writer, [{"o": None}, {"o": {"n": 1}}])
    assert resolver.resolve(decoded(writer, values)).to_pylist() == [{"o": None}, {"o": {"n": 1}}]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", {"type": "int", "logicalType": "date"}, 3, "1970-01-04"),
        ({"type": "int", "logicalType": "date"}, "long", 3, "3"),
        ("int", timestamp("millis"), 5, "1970-01-01 00:00:00.005000+00:00"),
        (
            timestamp("micros"),
            {"type": "long", "logicalType": "local-timestamp-millis"},
            5_999,
            "1970-01-01 00:00:00.005000",
        ),
    ],
)
def test_plain_numbers_and_times(writer: Any, reader: Any, value: int, expected: str) -> None:
    stored = writer["type"] if isinstance(writer, dict) else writer
    result = ColumnResolver(parse(reader), parse(writer)).resolve(decoded(writer, encoded(stored, [value])))
    assert [str(one) for one in result.to_pylist()] == [expected]


@pytest.mark.parametrize(("reader", "writer"), [("bytes", DECIMAL), (DECIMAL, "bytes"), (DECIMAL, "string")])
def test_bytes_do_not_become_decimals(reader: Any, writer: Any) -> None:
    with pytest.raises(UnsupportedAvroType, match="decimal"):
        ColumnResolver(parse(reader), parse(writer))
