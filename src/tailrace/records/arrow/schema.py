"""The columns of records, with the names and types of Spark's Kafka connector.

Spark compares Arrow schemas strictly, so the details match it: `binary` and not `large_binary`,
microseconds in UTC, a list whose entries are called `element`, and all columns nullable. A record
without headers has null there, not an empty list. A record without a timestamp has -1 ms, as in
Kafka, which is 1969-12-31 23:59:59.999.
"""

from collections.abc import Sequence

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Arrow columns need pyarrow: pip install 'tailrace[arrow]'") from (error)

__all__ = ["ALL_COLUMNS", "COLUMN_TYPES", "HEADERS_TYPE", "HEADER_TYPE", "pa", "schema_of"]

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))

COLUMN_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}

ALL_COLUMNS = tuple(COLUMN_TYPES)


def schema_of(columns: Sequence[str] = ALL_COLUMNS) -> pa.Schema:
    """Return the schema of these columns, in the given order."""
    if not columns:
        raise ValueError("name at least one column: without columns, Arrow cannot count rows")
    for column in columns:
        if column not in COLUMN_TYPES:
            raise ValueError(f"records have no column {column!r}; the columns are {', '.join(ALL_COLUMNS)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column is named twice: {', '.join(columns)}")
    return pa.schema([(column, COLUMN_TYPES[column]) for column in columns])
