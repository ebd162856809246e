"""PostgreSQL's values as JSON, as Debezium has them."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.connector.postgres_changes.value import (
    HSTORE,
    HSTORE_ARRAY,
    SPARSE_VECTOR,
    VECTOR,
    converter,
    unavailable,
)

MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("type_oid", "modifier", "text", "expected"),
    [
        (16, -1, "t", True),
        (16, -1, "f", False),
        (20, -1, "-9223372036854775808", -(2**63)),
        (700, -1, "1e+20", 1e20),
        (701, -1, "NaN", "NaN"),
        (701, -1, "-Infinity", "-Infinity"),
        (1700, -1, "12345678901234567890.0010", "12345678901234567890.0010"),
        (1700, -1, "NaN", "NAN"),
        (1700, -1, "-Infinity", "NEGATIVE_INFINITY"),
        (1231, -1, "{Infinity,1.50}", ["POSITIVE_INFINITY", "1.50"]),
        (790, -1, "-$1,234.50", "-1234.50"),
        (25, -1, 'a "quote"\n\\ é \u2028', 'a "quote"\n\\ é \u2028'),
        (17, -1, "\\x00ff", "AP8="),
        (3802, -1, '{"a": 1}', '{"a": 1}'),
        (1560, 1, "1", True),
        (1560, 11, "10000000011", "AwQ="),
        (1562, 20, "", ""),
        (600, -1, "(1.5,-2)", {"x": 1.5, "y": -2, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAADA", "srid": None}),
        (1186, -1, "P1Y2M3DT4H5M6.78S", "P1Y2M3DT4H5M6.78S"),
        (1186, -1, "PT0S", "P0Y0M0DT0H0M0S"),
        (1186, -1, "P-1Y3DT-0.5S", "P-1Y0M3DT0H0M-0.5S"),
        (1186, -1, "infinity", "infinity"),
        (1187, -1, "{P1D}", ["P0Y0M1DT0H0M0S"]),
        (1082, -1, "1970-01-02", 1),
        (1082, -1, "0044-03-15 BC", -735160),
        (1082, -1, "20000-02-29", 6585381),
        (1082, -1, "infinity", 2147483647),
        (1083, -1, "12:34:56.789", 45296789000),
        (1083, 3, "12:34:56.789", 45296789),
        (1083, -1, "24:00:00", 86400000000),
        (1114, -1, "2018-06-20 15:13:16.945104", 1529507596945104),  # the example of Debezium's documentation
        (1114, 3, "2018-06-20 15:13:16.945", 1529507596945),
        (1114, -1, "0001-12-31 23:59:59 BC", -62135596801000000),
        (1114, -1, "infinity", 9223372036825200000),
        (1114, -1, "-infinity", -9223372036832400000),
        (1184, -1, "2018-06-20 15:13:16.9451+00", "2018-06-20T15:13:16.945100Z"),
        (1184, -1, "0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00.000000Z"),
        (1184, -1, "infinity", "infinity"),
        (1184, -1, "20000-02-29 12:00:00+00", "+20000-02-29T12:00:00.000000Z"),
        (1184, 3, "2018-06-20 15:13:16.9+00", "2018-06-20T15:13:16.900Z"),
        (1184, 0, "2018-06-20 15:13:16+00", "2018-06-20T15:13:16Z"),
        (1266, -1, "15:51:30.123+02", "13:51:30.123Z"),
        (1266, -1, "00:00:00-05:30", "05:30:00Z"),
        (1266, -1, "24:00:00+00", "24:00:00Z"),
        (1266, -1, "24:00:00+02", "22:00:00Z"),
        (VECTOR, -1, "[1,2.5,-3e-05]", [1.0, 2.5, -3e-05]),
        (SPARSE_VECTOR, -1, "{1:1,3:2.5}/5", {"dimensions": 5, "vector": [[1, 1.0], [3, 2.5]]}),
        (SPARSE_VECTOR, -1, "{}/5", {"dimensions": 5, "vector": []}),
        (HSTORE, -1, r'"a"=>"1", "b \"c\""=>NULL, "=>"=>","', '{"a":"1","b \\"c\\"":null,"=>":","}'),
        (HSTORE, -1, "", "{}"),
        (HSTORE_ARRAY, -1, r'{"\"a\"=>\"1\"",NULL,""}', ['{"a":"1"}', None, "{}"]),
        (1007, -1, "{1,NULL,3}", [1, None, 3]),
        (1007, -1, "[2:3]={1,2}", [1, 2]),
        (1007, -1, "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (1007, -1, "{}", []),
        (1009, -1, '{a,"b \\"c\\" \\\\","NULL",NULL,"",é}', ["a", 'b "c" \\', "NULL", None, "", "é"]),
        (1182, -1, "{1970-01-02,infinity}", [1, 2147483647]),
        (999999, -1, "(1,x)", "(1,x)"),
    ],
)
def test_values(type_oid: int, modifier: int, text: str, expected: Any) -> None:
    assert json.loads(converter(type_oid, modifier)(text)) == expected


@given(st.datetimes())
def test_timestamps_are_microseconds_since_1970(moment: datetime.datetime) -> None:
    text = moment.isoformat(" ")
    assert int(converter(1114)(text)) == (moment - EPOCH) // MICROSECOND
    assert int(converter(1082)(text[:10])) == (moment.date() - EPOCH.date()).days


def test_values_that_were_left_out_have_a_placeholder() -> None:
    assert json.loads(unavailable(25)) == "__debezium_unavailable_value"
    assert json.loads(unavailable(1009)) == ["__debezium_unavailable_value"]
    assert json.loads(unavailable(17)) == "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    assert json.loads(unavailable(1001)) == ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]
    assert bytes(json.loads(unavailable(1007))) == b"__debezium_unavailable_value"
    pair = '{"__debezium_unavailable_value":"__debezium_unavailable_value"}'
    assert (json.loads(unavailable(HSTORE)), json.loads(unavailable(HSTORE_ARRAY))) == (pair, [pair])
    assert json.loads(unavailable(2950)) == "__debezium_unavailable_value"
    assert json.loads(unavailable(2951)) == ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]


@pytest.mark.parametrize(("text", "expected"), [("5", "5.0"), ("-0", "-0.0"), ("1.5", "1.5"), ("1e+20", "1e+20")])
def test_floats_are_not_taken_for_integers(text: str, expected: str) -> None:
    assert converter(701)(text) == expected
