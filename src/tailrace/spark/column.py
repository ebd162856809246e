"""The columns of sources and sinks.

Types are in Spark's DDL, so this module does not need Spark.
"""

from collections.abc import Mapping

from tailrace.spark.error import ColumnError, OptionError

HEADERS = "headers"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: HEADERS_TYPE,
}
DEFAULT_COLUMNS = tuple(name for name in COLUMN_TYPES if name != HEADERS)

_WRITTEN_TYPES = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    HEADERS: (HEADERS_TYPE,),
}
_PASSED_OVER = frozenset(COLUMN_TYPES) - frozenset(_WRITTEN_TYPES)
"""Columns that a sink ignores, so that a topic can be copied without dropping them."""


def parse_columns(option: str, text: str) -> tuple[str, ...]:
    """Return the columns that an option names, in its order."""
    spelling = {name.lower(): name for name in COLUMN_TYPES}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name.lower() not in spelling]
    if unknown or not names:
        what = f"unknown column {unknown[0]!r}" if unknown else "no column is given"
        raise OptionError(option, f"{what}; the columns are {', '.join(COLUMN_TYPES)}")
    columns = tuple(spelling[name.lower()] for name in names)
    if len(set(columns)) < len(columns):
        raise OptionError(option, f"a column is named twice in {text!r}")
    return columns


def source_schema(columns: tuple[str, ...]) -> str:
    """Return the schema of a source with these columns, as DDL."""
    return ", ".join(f"`{name}` {COLUMN_TYPES[name]}" for name in columns)


def check_read_schema(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of a schema; raises `ColumnError` for an unknown name or a wrong type."""
    for name, kind in fields.items():
        if name not in COLUMN_TYPES:
            raise ColumnError(
                f"topics have no column {name!r}; the columns are {', '.join(COLUMN_TYPES)}. "
                "Leave the schema out, and choose columns with option columns"
            )
        if kind != COLUMN_TYPES[name]:
            raise ColumnError(
                f"column {name} is {COLUMN_TYPES[name]} and cannot be read as {kind}. "
                "Leave the schema out, choose columns with option columns, and cast them afterwards"
            )
    if not fields:
        raise ColumnError("the schema has no columns")
    return tuple(fields)


def check_write_schema(fields: Mapping[str, str], topic: str | None) -> None:
    """Raise `ColumnError` unless rows with these columns can be written; the option `topic` overrides the column."""
    takes = "a topic takes value, key, headers, partition and, without option topic, topic"
    for name, kind in fields.items():
        if name in _WRITTEN_TYPES:
            if kind not in _WRITTEN_TYPES[name] and not (name == "topic" and topic is not None):
                raise ColumnError(f"column {name} is {kind} and must be {' or '.join(_WRITTEN_TYPES[name])}; cast it")
        elif name not in _PASSED_OVER:
            raise ColumnError(f"column {name!r} cannot be written: {takes}. Drop it, or put it into value")
    if "value" not in fields:
        raise ColumnError(f"there is no column 'value' among {', '.join(fields) or 'none'}: {takes}")
    if topic is None and "topic" not in fields:
        raise ColumnError("the rows have no topic: set option topic, or add a column topic")
