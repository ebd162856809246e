"""The columns of rows: which a source gives, and which a sink takes.

Types are written as Spark writes them in DDL, so that this needs no Spark.
"""

from collections.abc import Mapping

from runnel.spark.error import ColumnError, OptionError

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
"""What a source gives and a sink cannot set: a topic can be copied without dropping these first."""


def parse_columns(option: str, text: str) -> tuple[str, ...]:
    """The columns that an option names, in its order."""
    spelling = {name.lower(): name for name in COLUMN_TYPES}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name.lower() not in spelling]
    if unknown or not names:
        what = f"there is no column {unknown[0]!r}" if unknown else "no column is named"
        raise OptionError(option, f"{what}; there are {', '.join(COLUMN_TYPES)}")
    columns = tuple(spelling[name.lower()] for name in names)
    if len(set(columns)) < len(columns):
        raise OptionError(option, f"a column is named twice in {text!r}")
    return columns


def source_schema(columns: tuple[str, ...]) -> str:
    """The schema of a source with these columns, as DDL."""
    return ", ".join(f"`{name}` {COLUMN_TYPES[name]}" for name in columns)


def check_read_schema(fields: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that a schema asks for, by their names and types; raises `ColumnError`."""
    for name, kind in fields.items():
        if name not in COLUMN_TYPES:
            raise ColumnError(
                f"topics have no column {name!r}; there are {', '.join(COLUMN_TYPES)}. "
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
    """Raise `ColumnError` unless rows with these columns can be written; `topic` is the option, which goes first."""
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
        raise ColumnError("set option topic, or add a column topic: nothing says where the rows go")
