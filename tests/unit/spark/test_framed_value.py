"""Framed values by column, as executors decode and encode them."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.spark.registry_model import SETTINGS, RegistryModel

from tailrace.schema.error import RegistryUnavailable
from tailrace.schema.language import SchemaType
from tailrace.spark.connector.error_policy import check_errors
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON
from tailrace.spark.connector.topic.framed_value import KEY, REASONS, TEXT, ValueDecoder, ValueEncoder, _kept_codec
from tailrace.spark.connector.topic.registered import ValueFormat
from tailrace.spark.error import MalformedValue, RetriableRegistryError, WriteError

OLD = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
NEW = """{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
    {"name": "s", "type": "string", "default": "x"}]}"""
COLUMNS = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("s", pa.string())])


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> RegistryModel:
    model = RegistryModel()
    monkeypatch.setattr("tailrace.spark.connector.topic.framed_value.Registry", model)
    _kept_codec.cache_clear()
    return model


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + data


def batch(values: Sequence[bytes | None]) -> Any:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * count,
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
        }
    )


STOPS, SKIPS = (Rejects("f", check_errors(errors)) for errors in ("stop", "skip"))


def decoder(schema_id: int, rejects: Rejects | None = STOPS, **more: Any) -> ValueDecoder:
    return ValueDecoder(ValueFormat.AVRO, SETTINGS, "t", schema_id, rejects, COLUMNS, **more)


def rows_of(decoder: ValueDecoder, values: Sequence[bytes | None]) -> list[dict[str, Any]]:
    (decoded,) = decoder.decode(iter([batch(values)]))
    rows: list[dict[str, Any]] = decoded.to_pylist()
    return rows


def test_values_of_other_versions_have_the_columns_of_the_reader(registry: RegistryModel) -> None:
    old, new = registry.add("t-value", OLD), registry.add("t-value", NEW)
    values = [framed(old, b"\x02"), None, framed(new, b"\x04\x02\xd0\x0f\x02a"), framed(old, b"\x06")]
    rows = rows_of(decoder(new, include=("offset",)), values)
    assert [(row["offset"], row["n"], row["s"]) for row in rows] == [
        (100, 1, "x"),
        (101, None, None),
        (102, 2, "a"),
        (103, 3, "x"),
    ]
    assert str(rows[2]["at"]) == "1970-01-01 00:00:01+00:00"


def test_a_worker_looks_up_each_schema_once(registry: RegistryModel) -> None:
    old, new = registry.add("t-value", OLD), registry.add("t-value", NEW)
    for _ in range(3):
        assert len(rows_of(decoder(new), [framed(old, b"\x02"), framed(new, b"\x04\x00\x02a")])) == 2
    assert registry.looked_up.count(old) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"plain", "t-3 offset 102: not a valid Avro value: it does not begin with 0"),
        (b"", "t-3 offset 102: not a valid Avro value: it does not begin with 0"),
        (framed(99, b"\x02"), "t-3 offset 102: the schema of the value is unknown: Schema not found"),
        (framed(1, b"\x02\x02"), "t-3 offset 102: not a valid Avro value: it has bytes after its end"),
        (framed(3, b"\x02a"), "t-3 offset 102: the value does not fit the reader's schema"),
        (framed(5, b"\x02\x00\x02\x02"), "t-3 offset 102: bytes cannot be read by column as string: a decimal"),
        (framed(4, b"{}"), "t-3 offset 102: value of topic t: the schema with id 4 is JSON and not AVRO"),
    ],
)
def test_a_wrong_value_stops_has_a_reason_or_is_null(registry: RegistryModel, value: bytes, message: str) -> None:
    old, new = registry.add("t-value", OLD), registry.add("t-value", NEW)
    registry.add("other", '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}]}')
    registry.add("json", "{}", SchemaType.JSON)
    registry.add("decimal", NEW.replace('"string"', '{"type": "bytes", "logicalType": "decimal", "precision": 4}'))
    values = [framed(old, b"\x02"), framed(new, b"\x04\x00\x02a"), value, framed(old, b"\x06"), value]
    with pytest.raises(MalformedValue) as caught:
        rows_of(decoder(new), values)
    assert message in str(caught.value)
    found = rows_of(decoder(new, SKIPS), values)
    assert [row["n"] for row in found if row[REASON] is None] == [1, 2, 3]
    assert [row[REASON] in REASONS for row in found] == [False, False, True, False, True]
    nulls = rows_of(decoder(new, None, include=("offset",)), values)
    assert [(row["offset"], row["n"]) for row in nulls] == [(100, 1), (101, 2), (102, None), (103, 3), (104, None)]
    assert all(row[REASON] for row in rows_of(decoder(new, SKIPS), [value]))


def test_a_registry_that_does_not_answer_is_no_wrong_value(
    registry: RegistryModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = registry.add("t-value", NEW)

    def fail(_id: int) -> Any:
        raise RegistryUnavailable("refused")

    monkeypatch.setattr(registry, "schema", fail)
    with pytest.raises(RetriableRegistryError, match="no registry answers: refused"):
        rows_of(decoder(new, SKIPS), [framed(new, b"")])


def test_rows_are_encoded_with_the_registered_schema(registry: RegistryModel) -> None:
    schema_id = registry.add("t-value", OLD)
    rows = pa.RecordBatch.from_pydict({KEY: ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    (encoded,) = ValueEncoder(ValueFormat.AVRO, SETTINGS, "t", OLD, STOPS, has_key=True).encode(iter([rows]))
    assert encoded.to_pylist() == [
        {"key": "a", "value": framed(schema_id, b"\x02")},
        {"key": "b", "value": framed(schema_id, b"\x04")},
    ]
    with pytest.raises(
        WriteError, match=r'^a row cannot be written to topic t: a field .* null is null \(\{"n": null\}\)$'
    ):
        list(ValueEncoder(ValueFormat.AVRO, SETTINGS, "t", OLD, STOPS).encode(iter([rows.slice(0, 0), pa_nulls()])))


def test_rows_that_cannot_be_encoded_are_left_out_alone(registry: RegistryModel) -> None:
    schema_id = registry.add("t-value", OLD)
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, None, 2, None, None], pa.int32())})
    encoder = ValueEncoder(ValueFormat.AVRO, SETTINGS, "t", OLD, SKIPS)
    (encoded,) = encoder.encode(iter([rows]))
    reason = "a row cannot be written to topic t"
    assert encoded.column(REASON).to_pylist() == [None, reason, None, reason, reason]
    assert encoded.column("value").to_pylist() == [
        framed(schema_id, b"\x02"),
        None,
        framed(schema_id, b"\x04"),
        None,
        None,
    ]


def pa_nulls() -> Any:
    return pa.RecordBatch.from_pydict({"n": pa.array([None], pa.int32())})


def test_json_is_framed_and_read_by_arrow(registry: RegistryModel) -> None:
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}})
    schema_id = registry.add("t-value", schema, SchemaType.JSON)
    texts = pa.RecordBatch.from_pydict({TEXT: ['{"n":1}', '{"n":2,"s":"ä","more":[]}']})
    (encoded,) = ValueEncoder(ValueFormat.JSON, SETTINGS, "t", schema, STOPS).encode(iter([texts]))
    values = encoded.column("value").to_pylist()
    assert values[0] == framed(schema_id, b'{"n":1}')
    columns = pa.schema([("n", pa.int64()), ("s", pa.string())])
    reader = ValueDecoder(ValueFormat.JSON, SETTINGS, "t", schema_id, None, columns)
    rows = rows_of(reader, [*values, framed(schema_id, b'{"n":"no"}'), framed(schema_id, b"{"), None])
    assert [(row["n"], row["s"]) for row in rows] == [(1, None), (2, "ä"), (None, None), (None, None), (None, None)]
