"""The columns of records, as Spark's Kafka connector names and types them.

Spark compares Arrow schemas strictly, so the details are its own: `binary` and not
`large_binary`, microseconds in UTC, a list whose entries are called `element`, and everything
nullable. A record without headers has null there, not an empty list. A record without a
timestamp has -1 ms, as in Kafka, which is 1969-12-31 23:59:59.999.
"""

from collections.abc import Sequence

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("columns need pyarrow, which the extra runnel[arrow] brings: pip install 'runnel[arrow]'") from (
        error
    )

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
    """The schema of these columns, in the order in which they are named."""
    if not columns:
        raise ValueError("name one column at least: Arrow counts no rows without any")
    for column in columns:
        if column not in COLUMN_TYPES:
            raise ValueError(f"records have no column {column!r}; there are {', '.join(ALL_COLUMNS)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column is named twice among {', '.join(columns)}")
    return pa.schema([(column, COLUMN_TYPES[column]) for column in columns])
