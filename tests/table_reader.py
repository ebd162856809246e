"""Tables as programs of others read them: DuckDB with its own extensions, and Polars."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from tailrace.spark.connector.delta.delta_table import DeltaLakeTable
from tailrace.spark.connector.lake.lake_table import LakeTable

PACKAGES = (
    *("deltalake", "obstore", "pyiceberg", "sqlalchemy"),
    *("polars", "duckdb", "duckdb_extension_avro", "duckdb_extension_delta", "duckdb_extension_iceberg"),
)


def require_tables() -> None:
    """Skip, and say why, where a package for tables is missing."""
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def duckdb_rows(table: LakeTable, columns: str = "*") -> list[tuple[Any, ...]]:
    """The rows as DuckDB reads them, sorted."""
    import duckdb

    library: Any = table
    is_delta = isinstance(table, DeltaLakeTable)
    place = library._table.table_uri if is_delta else library._table.metadata_location
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in ("delta",) if is_delta else ("avro", "iceberg"):
            connection.execute(f"LOAD '{_extension(name)}'")
        function = "delta_scan" if is_delta else "iceberg_scan"
        return sorted(connection.execute(f"SELECT {columns} FROM {function}(?)", [place]).fetchall(), key=str)


def polars_rows(table: LakeTable, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as Polars reads them, sorted."""
    import polars

    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # without it, Polars warns that there is a faster one
    library: Any = table
    is_delta = isinstance(table, DeltaLakeTable)
    frame = polars.scan_delta(library._table) if is_delta else polars.scan_iceberg(library._table)
    return sorted(frame.select(columns or polars.all()).collect().rows(), key=str)


def _extension(name: str) -> Path:
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert found is not None
    assert found.origin is not None
    return next(Path(found.origin).parent.rglob("*.duckdb_extension"))
