"""The types that stand for those of users and extensions."""

from __future__ import annotations

from tailrace.spark.connector.postgres_changes.column_type import DefinedType, replace_types, replaced
from tailrace.spark.connector.postgres_changes.pgoutput import Column
from tailrace.spark.connector.postgres_changes.value import HSTORE, HSTORE_ARRAY, VECTOR

DEFINED = (
    DefinedType(20_001, "price", 1700, 655_366, 0),
    DefinedType(20_002, "low_price", 20_001, -1, 0),
    DefinedType(20_003, "seen_at", 1114, 3, 0),
    DefinedType(20_004, "_mood", 0, -1, 20_100),
    DefinedType(20_005, "_seen_at", 0, -1, 20_003),
    DefinedType(20_006, "vector", 0, -1, 0),
    DefinedType(20_007, "_vector", 0, -1, 20_006),
    DefinedType(20_008, "hstore", 0, -1, 0),
    DefinedType(20_009, "_hstore", 0, -1, 20_008),
)


def test_domains_arrays_and_extensions_are_replaced() -> None:
    assert replace_types(DEFINED) == {
        20_001: (1700, 655_366),
        20_002: (1700, 655_366),
        20_003: (1114, 3),
        20_004: (1009, -1),
        20_005: (1115, 3),
        20_006: (VECTOR, -1),
        20_007: (1009, -1),
        20_008: (HSTORE, -1),
        20_009: (HSTORE_ARRAY, -1),
    }


def test_a_column_keeps_its_name_and_its_place_in_the_key() -> None:
    types = replace_types(DEFINED)
    assert replaced(Column("at", 20_003, -1, True), types) == Column("at", 1114, 3, True)
    assert replaced(Column("n", 23, -1, False), types) == Column("n", 23, -1, False)
