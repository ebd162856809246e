"""Objects in every format: written, read by other libraries, read back, and refused with the reason."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.spark.connector.s3.body import CountingFile, open_body
from tailrace.spark.connector.s3.object_format import COMPRESSIONS, ObjectFormat, suffix_of
from tailrace.spark.connector.s3.object_read import object_schema, read_object
from tailrace.spark.connector.s3.position import Found
from tailrace.spark.connector.s3.store import StoreSettings
from tailrace.spark.error import ConnectorError, MalformedValue

obstore = pytest.importorskip("obstore", reason="obstore is not installed")

SETTINGS = StoreSettings("s3://bucket/prefix")
ROWS: list[dict[str, Any]] = [
    {"n": 1, "text": "ä", "at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 1), "sum": Decimal("1.50")},
    {"n": -(2**40), "text": None, "at": None, "day": None, "sum": None},
]
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("sum", pa.decimal128(10, 2)),
    ]
)
AVRO = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "text", "type": ["null", "string"]},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {
                "name": "sum",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
            },
        ],
    }
)


def write(format: ObjectFormat, compression: str, *tables: pa.Table) -> bytes:
    output = io.BytesIO()
    body = open_body(CountingFile(output), format, compression, tables[0].schema, AVRO)
    for table in tables:
        body.write(table)
    body.finish()
    assert body.file.size == len(output.getvalue())
    return output.getvalue()


def read(content: bytes, format: ObjectFormat, schema: pa.Schema = SCHEMA, name: str = "a") -> list[dict[str, Any]]:
    from obstore.store import MemoryStore

    store = MemoryStore()
    obstore.put(store, name, content)
    found = Found(name, 0, len(content), obstore.head(store, name)["e_tag"])
    return [row for batch in read_object(SETTINGS, store, found, format, schema) for row in batch.to_pylist()]


@pytest.mark.parametrize("compression", COMPRESSIONS[ObjectFormat.AVRO])
def test_avro_is_what_another_library_reads(compression: str) -> None:
    fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    content = write(ObjectFormat.AVRO, compression, table, table.slice(1))
    expected = [*ROWS, ROWS[1]]
    assert list(fastavro.reader(io.BytesIO(content))) == expected
    assert read(content, ObjectFormat.AVRO) == expected


@pytest.mark.parametrize("compression", COMPRESSIONS[ObjectFormat.PARQUET])
def test_parquet_is_read_back(compression: str) -> None:
    content = write(ObjectFormat.PARQUET, compression, pa.Table.from_pylist(ROWS, SCHEMA))
    assert pq.read_table(io.BytesIO(content)).to_pylist() == ROWS
    assert read(content, ObjectFormat.PARQUET) == ROWS


@pytest.mark.parametrize("compression", COMPRESSIONS[ObjectFormat.JSON])
def test_json_is_a_line_for_each_row(compression: str) -> None:
    lines = ['{"n":1}', '{"n":"ä"}', '{"n":3}']
    table = pa.table({"value": lines})
    content = write(ObjectFormat.JSON, compression, table.slice(1), table.slice(0, 1))
    plain = gzip.decompress(content) if compression == "gzip" else content
    assert plain.decode() == f"{lines[1]}\n{lines[2]}\n{lines[0]}\n"
    schema = pa.schema([("value", pa.string()), ("object", pa.string()), ("line", pa.int64())])
    name = f"a.{suffix_of(ObjectFormat.JSON, compression)}"
    found = read(content, ObjectFormat.JSON, schema, name)
    assert [(row["value"], row["line"]) for row in found] == [(lines[1], 1), (lines[2], 2), (lines[0], 3)]


def test_the_schema_is_that_of_the_object() -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed")
    from obstore.store import MemoryStore

    table, store = pa.Table.from_pylist(ROWS, SCHEMA), MemoryStore()
    for format in (ObjectFormat.AVRO, ObjectFormat.PARQUET):
        obstore.put(store, format, write(format, COMPRESSIONS[format][0], table))
        assert object_schema(SETTINGS, store, Found(format, 0, 1), format).equals(SCHEMA)


def parquet(**columns: Any) -> bytes:
    output = io.BytesIO()
    pq.write_table(pa.table(columns), output)
    return output.getvalue()


NUMBER = pa.schema([("n", pa.int64())])
WRONG = [
    (b"PAR1 and no more", ObjectFormat.PARQUET, "object s3://bucket/prefix/a is not valid parquet: "),
    (b"Obj\x01 and no more", ObjectFormat.AVRO, "object s3://bucket/prefix/a is not valid avro: "),
    (parquet(m=[1]), ObjectFormat.PARQUET, "object s3://bucket/prefix/a has no column n; its columns are m"),
    (parquet(n=["1"]), ObjectFormat.PARQUET, "column n is string, which does not fit int64"),
    (parquet(n=[1.5]), ObjectFormat.PARQUET, "column n is double, which does not fit int64"),
]


@pytest.mark.parametrize(("content", "format", "message"), WRONG)
def test_a_wrong_object_is_named(content: bytes, format: ObjectFormat, message: str) -> None:
    with pytest.raises(MalformedValue) as error:
        read(content, format, NUMBER)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_narrower_type_is_widened() -> None:
    assert read(parquet(n=pa.array([1], pa.int16())), ObjectFormat.PARQUET, NUMBER) == [{"n": 1}]


def test_an_object_that_changed_or_is_gone_is_named() -> None:
    """A batch that is repeated must not read other rows than before."""
    from obstore.store import MemoryStore

    store = MemoryStore()
    obstore.put(store, "a", parquet(n=[1]))
    old = Found("a", 0, 1, obstore.head(store, "a")["e_tag"])
    obstore.put(store, "a", parquet(n=[2]))
    for found, message in ((old, "a was overwritten before it was read"), (Found("b", 0, 1), "b was deleted before")):
        with pytest.raises(ConnectorError, match=message):
            list(read_object(SETTINGS, store, found, ObjectFormat.PARQUET, NUMBER))
