"""Schemas: which columns a source gives and a sink takes, and what is wrong with others."""

import pytest

from tailrace.spark.column import (
    COLUMN_TYPES,
    DEFAULT_COLUMNS,
    HEADERS_TYPE,
    check_read_schema,
    check_write_schema,
    source_schema,
)
from tailrace.spark.error import ColumnError


def test_the_schema_is_that_of_the_kafka_connector() -> None:
    assert source_schema(DEFAULT_COLUMNS) == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, "
        "`timestamp` timestamp, `timestampType` int"
    )
    assert source_schema(("headers",)) == "`headers` array<struct<key:string,value:binary>>"


def test_a_schema_may_choose_columns() -> None:
    assert check_read_schema({"offset": "bigint", "value": "binary"}) == ("offset", "value")
    assert check_read_schema(COLUMN_TYPES) == tuple(COLUMN_TYPES)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"colour": "string"}, "topics have no column 'colour'; .*option columns"),
        ({"value": "string"}, "column value is binary and cannot be read as string.*option columns"),
        ({}, "no columns"),
    ],
)
def test_a_schema_that_topics_do_not_have_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        check_read_schema(fields)


@pytest.mark.parametrize(
    ("fields", "topic"),
    [
        ({"value": "string"}, "t"),
        ({"value": "binary", "topic": "string"}, None),
        ({"key": "string", "value": "binary", "partition": "int", "headers": HEADERS_TYPE}, "t"),
        ({**COLUMN_TYPES}, "t"),  # a topic is copied as it was read
        ({"value": "string", "topic": "int"}, "t"),  # the option goes first, and nobody looks at the column
    ],
)
def test_rows_that_can_be_written(fields: dict[str, str], topic: str | None) -> None:
    check_write_schema(fields, topic)


@pytest.mark.parametrize(
    ("fields", "topic", "message"),
    [
        ({"key": "string"}, "t", "there is no column 'value' among key"),
        ({}, "t", "there is no column 'value' among none"),
        ({"value": "int"}, "t", "column value is int and must be binary or string; cast it"),
        ({"value": "string", "partition": "bigint"}, "t", "column partition is bigint and must be int"),
        ({"value": "string", "headers": "map<string,binary>"}, "t", "column headers is map.* and must be array"),
        ({"value": "string", "kye": "string"}, "t", "column 'kye' cannot be written"),
        ({"value": "string"}, None, "set option topic, or add a column topic"),
        ({"value": "string", "topic": "int"}, None, "column topic is int and must be string"),
    ],
)
def test_rows_that_cannot_be_written(fields: dict[str, str], topic: str | None, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        check_write_schema(fields, topic)
