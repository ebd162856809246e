"""JSON values and columns with a JSON Schema."""

import json
from typing import Any

import pyarrow as pa
import pytest

from tailrace.schema import CodecError, JsonCodec, NewSchema, Reference, Registry, SchemaType

ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"code": {"type": "string"}}}},
    },
    "required": ["id"],
}
ROW: dict[str, Any] = {"id": 1, "price": 2.5, "lines": [{"code": "a"}]}


@pytest.fixture
def orders(registry: Registry, topic: str) -> JsonCodec:
    return JsonCodec(registry, topic, schema=json.dumps(ORDER))


def test_a_value_there_and_back(registry: Registry, topic: str, orders: JsonCodec) -> None:
    data = orders.encode({"id": 1, "name": "é"})
    assert data is not None
    assert data[5:] == '{"id":1,"name":"é"}'.encode()
    assert JsonCodec(registry, topic).decode(data) == {"id": 1, "name": "é"}


def test_values_are_validated_on_both_sides(registry: Registry, topic: str, orders: JsonCodec) -> None:
    wrong = {"id": 1, "lines": [{"code": 5}]}
    with pytest.raises(CodecError, match=f"value of topic {topic} does not fit the schema: at /lines/0/code: 5 is not"):
        orders.encode(wrong)
    trusting = JsonCodec(registry, topic, schema=json.dumps(ORDER), validate=False)
    data = trusting.encode(wrong)
    assert trusting.decode(data) == wrong
    with pytest.raises(CodecError, match=r"schema id \d+: does not fit the schema: at /lines/0/code"):
        orders.decode(data)


def test_a_schema_with_references(registry: Registry, topic: str) -> None:
    registry.register(topic, NewSchema('{"type": "integer"}', SchemaType.JSON))
    text = '{"properties": {"n": {"$ref": "number.json"}}}'
    codec = JsonCodec(registry, topic, schema=text, references=[Reference("number.json", topic, 1)])
    assert codec.decode(codec.encode({"n": 1})) == {"n": 1}
    with pytest.raises(CodecError, match="at /n"):
        codec.encode({"n": "1"})


@pytest.mark.parametrize("value", [{"id": object()}, {"id": float("nan")}, {"id": 2, "x": b""}])
def test_what_is_not_json(orders: JsonCodec, value: Any) -> None:
    with pytest.raises(CodecError, match="cannot be written as JSON"):
        orders.encode(value)


def test_damaged_json(orders: JsonCodec) -> None:
    data = orders.encode(ROW)
    assert data is not None
    with pytest.raises(CodecError, match="not valid JSON"):
        orders.decode(data[:-1])


# --- columns


def test_a_table_there_and_back(registry: Registry, topic: str, orders: JsonCodec) -> None:
    table = pa.Table.from_pylist([ROW, {"id": 2, "price": None, "lines": []}])
    values = orders.encode_table(table)["value"]
    found = JsonCodec(registry, topic).decode_column(values)
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.field("id").type == pa.int64()


def test_types_come_from_the_schema_and_nulls_stay(orders: JsonCodec) -> None:
    values = [orders.encode({"id": 1, "price": 2, "extra": True}), None, orders.encode({"id": 3})]
    table = orders.decode_column(pa.chunked_array([values[:2], values[2:]], pa.binary()))
    assert table.schema.field("price").type == pa.float64()
    assert table["price"].to_pylist() == [2.0, None, None]
    assert (table["id"].to_pylist(), table["extra"].to_pylist()) == ([1, None, 3], [True, None, None])
    assert orders.decode_column(pa.array([None], pa.binary()))["id"].to_pylist() == [None]
    assert orders.decode_column(pa.chunked_array([], pa.binary())).column_names == ["id", "price", "lines"]


def test_values_over_several_lines_and_longer_than_a_block(registry: Registry, topic: str) -> None:
    codec = JsonCodec(registry, topic, schema="true")
    start = (codec.encode({}) or b"")[:5]
    values = [start + b'{\n "a": "x"\n}', start + json.dumps({"a": "y" * 3_000_000}).encode()]
    assert [len(row["a"]) for row in codec.decode_column(pa.array(values)).to_pylist()] == [1, 3_000_000]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"5", "does not fit the schema: at /: 5 is not of type 'object'"),
        (b"{", "not valid JSON"),
        (b'{"id":1}{"id":2}', "not valid JSON: Extra data"),
        (b"", "not valid JSON"),
        (b'{"id":"one"}', "does not fit the schema: at /id: 'one' is not of type 'integer'"),
        (b'{"id":null}', "does not fit the schema: at /id: None is not of type 'integer'"),
        (b"{}", "does not fit the schema: at /: 'id' is a required property"),
        (b'{"id":1,"lines":[{"code":"a"},{"code":null}]}', "does not fit the schema: at /lines/1/code"),
    ],
)
def test_a_row_that_is_invalid_is_named(topic: str, orders: JsonCodec, text: bytes, reason: str) -> None:
    """Columns were not validated, and an error of Arrow did not name the row."""
    good = orders.encode({"id": 1})
    assert good is not None
    column = pa.chunked_array([[good], [None, good, good[:5] + text], [good, good[:5] + b"{"]], pa.binary())
    with pytest.raises(CodecError) as caught:
        orders.decode_column(column)
    assert str(caught.value).startswith(f"value of topic {topic}, row 3: {reason}")


def test_two_objects_in_one_value_are_not_the_rows_of_two(topic: str, orders: JsonCodec) -> None:
    """The number of lines was right, so the second object became the row of a value that was empty."""
    start = (orders.encode({"id": 1}) or b"")[:5]
    with pytest.raises(CodecError, match=f"value of topic {topic}, row 0: not valid JSON: Extra data"):
        orders.decode_column(pa.array([start + b'{"id":1}{"id":2}', start]))


def test_lists_of_nulls_without_a_type(registry: Registry, topic: str) -> None:
    """Arrow's reader makes an array of them whose offsets point behind its end, and reading it can crash."""
    codec = JsonCodec(registry, topic, schema="true")
    with pytest.raises(CodecError, match=r"a column of JSON cannot be read: .*out of bounds"):
        codec.decode_column(pa.array([codec.encode({"a": [None, None]})]))


def test_what_arrow_cannot_hold(registry: Registry, topic: str) -> None:
    codec = JsonCodec(registry, topic, schema='{"properties": {"a": {"type": ["string", "integer"]}}}')
    values = [codec.encode({"a": "x"}), codec.encode({"a": 1})]
    with pytest.raises(CodecError, match=f"value of topic {topic}: a column of JSON cannot be read"):
        codec.decode_column(pa.array(values))
    assert codec.encode(5) is not None
    with pytest.raises(CodecError, match="row 1: it is not a JSON object"):
        codec.decode_column(pa.array([values[0], codec.encode(5)]))


def test_without_validation_only_the_types_of_columns_matter(registry: Registry, topic: str) -> None:
    trusting = JsonCodec(registry, topic, schema=json.dumps(ORDER), validate=False)
    values = pa.array([trusting.encode({"price": 1}), trusting.encode({})])
    assert trusting.decode_column(values)["price"].to_pylist() == [1.0, None]
    with pytest.raises(CodecError, match="a column of JSON cannot be read"):
        trusting.decode_column(pa.array([trusting.encode({"id": "one"})]))


def test_each_value_is_validated_with_the_schema_that_it_was_written_with(registry: Registry, topic: str) -> None:
    registry.set_config({"compatibility": "NONE"}, f"{topic}-value")
    least = [
        JsonCodec(registry, topic, schema=json.dumps({"properties": {"n": {"type": "integer", "minimum": n}}}))
        for n in (0, 10)
    ]
    small, large = least[0].encode({"n": 5}), least[1].encode({"n": 50})
    assert small is not None
    assert large is not None
    anyone = JsonCodec(registry, topic)
    assert anyone.decode_column(pa.array([small, large, small]))["n"].to_pylist() == [5, 50, 5]
    with pytest.raises(CodecError, match="row 1: does not fit the schema: at /n: 5 is less than the minimum of 10"):
        anyone.decode_column(pa.array([small, large[:5] + small[5:]]))


def test_a_row_that_cannot_be_encoded_is_named(topic: str, orders: JsonCodec) -> None:
    with pytest.raises(CodecError, match=f"value of topic {topic}, row 1: does not fit the schema: at /id"):
        orders.encode_column(pa.table({"id": pa.array([1, None], pa.int64())}))
