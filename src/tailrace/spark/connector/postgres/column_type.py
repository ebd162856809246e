"""The mapping of types between PostgreSQL and Spark. Pure.

Rows cross in the CSV format of COPY, which Arrow reads and writes by column. What it cannot hold crosses as text: bytes
in hexadecimal, arrays and nested values as JSON or as PostgreSQL's array literals. Spark converts these.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType, StructField

DECIMAL_DIGITS_MAX = 38
_OPEN_DECIMAL = (38, 18)
"""Precision and scale for a numeric column that has none, as in Spark's JDBC source."""

_READ = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "oid": "bigint",
    "float4": "float",
    "float8": "double",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "bytea": "binary",
}
"""Spark's type for a type of PostgreSQL; all others are strings."""

_CREATED = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}
"""PostgreSQL's type of a new column."""

_INTEGERS = ("int2", "int4", "int8", "numeric")
_TEXTS = frozenset({"text", "varchar", "bpchar", "citext"})
_FITTING = {
    "boolean": {"bool"},
    "tinyint": {*_INTEGERS},
    "smallint": {*_INTEGERS},
    "int": {*_INTEGERS[1:], "float8"},
    "bigint": {*_INTEGERS[2:]},
    "float": {"float4", "float8"},
    "double": {"float8"},
    "date": {"date"},
    "timestamp": {"timestamptz"},
    "timestamp_ntz": {"timestamp"},
    "binary": {"bytea"},
}
"""Types of existing columns that can hold every value of a type of Spark; a decimal and a string have rules."""

_NOT_FOR_STRINGS = frozenset({*_READ, "numeric", "money", "time", "timetz", "bit", "varbit"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a query; `type` is PostgreSQL's internal name, that of the elements for an array."""

    name: str
    type: str
    is_array: bool = False
    is_own: bool = False
    """The type is an enumeration or another one that users have made."""
    shown: str = ""
    precision: int | None = None
    scale: int | None = None

    @property
    def read_type(self) -> str:
        """The type in Spark, as DDL."""
        return f"array<{self._value_type}>" if self.is_array else self._value_type

    @property
    def raw_type(self) -> str:
        """The type in which values cross from the database."""
        return "string" if self.is_array or self.type == "bytea" else self._value_type

    @property
    def _value_type(self) -> str:
        if self.type == "numeric":
            precision, scale = _OPEN_DECIMAL if self.precision is None else (self.precision, self.scale or 0)
            if precision > DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
                return "string"
            return f"decimal({precision},{scale})"
        if self.is_array and self.type == "bytea":
            return "string"
        return _READ.get(self.type, "string")


def read_expression(column: Column, name: str) -> str:
    """Return the expression of PostgreSQL for a column, whose name is quoted already."""
    if column.is_array:
        return f"to_json({name})::text"
    if column.type == "bytea":
        return f"encode({name}, 'hex')"
    return f"{name}::text" if column.raw_type == "string" else name


def arrow_type(raw_type: str) -> Any:
    """Return Arrow's type for the type in which values cross."""
    import pyarrow as pa

    if raw_type.startswith("decimal"):
        return pa.decimal128(*map(int, raw_type[len("decimal(") : -1].split(",")))
    return {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "string": pa.string(),
    }[raw_type]


def from_raw(column: Column) -> "SparkColumn":
    """Return the column in Spark as its type, from the raw one."""
    from pyspark.sql import functions as f

    found = f.col(quote(column.name))
    if column.is_array:
        return f.from_json(found, column.read_type, {"mode": "FAILFAST"}).alias(column.name)
    return f.unhex(found).alias(column.name) if column.type == "bytea" else found


def new_type(field: "StructField") -> str:
    """Return the type of a new column; raises `PipelineError` if PostgreSQL has none for it."""
    return _created(field.dataType, field.name)


def _created(kind: "DataType", name: str) -> str:
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    if isinstance(kind, types.ArrayType) and is_scalar(kind.elementType):
        return f"{_created(kind.elementType, name)}[]"
    if is_nested(kind):
        return "jsonb"
    if isinstance(kind, types.StringType):
        return "text"  # of any collation, and char and varchar
    found = _CREATED.get(kind.simpleString())
    if found is None:
        raise PipelineError(f"column {name} has the type {kind.simpleString()}, for which PostgreSQL has none; cast it")
    return found


def is_scalar(kind: "DataType") -> bool:
    """Return whether a type of Spark is a single value."""
    from pyspark.sql import types

    return isinstance(kind, types.DecimalType | types.StringType) or kind.simpleString() in _CREATED


def is_nested(kind: "DataType") -> bool:
    """Return whether a type of Spark has parts."""
    from pyspark.sql import types

    return isinstance(kind, types.StructType | types.MapType | types.ArrayType)


def fits(kind: "DataType", column: Column) -> bool:
    """Return whether a column can hold every value of a type of Spark."""
    from pyspark.sql import types

    if is_nested(kind):
        if not column.is_array:
            return column.type in {"json", "jsonb"} | _TEXTS
        one = Column(column.name, column.type, False, column.is_own, column.shown, column.precision, column.scale)
        return isinstance(kind, types.ArrayType) and is_scalar(kind.elementType) and fits(kind.elementType, one)
    if column.is_array:
        return False
    if isinstance(kind, types.DecimalType):
        if column.type != "numeric":
            return False
        scale = column.scale or 0
        return column.precision is None or (
            scale >= kind.scale and column.precision - scale >= kind.precision - kind.scale
        )
    if isinstance(kind, types.StringType):
        return column.is_own or column.type not in _NOT_FOR_STRINGS
    if column.type == "numeric" and column.precision is not None:
        return column.precision - (column.scale or 0) >= _digits(kind)
    return column.type in _FITTING.get(kind.simpleString(), ())


def _digits(kind: "DataType") -> int:
    return {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}.get(kind.simpleString(), DECIMAL_DIGITS_MAX + 1)


def to_raw(field: "StructField", column: Column) -> "SparkColumn":
    """Return a column of Spark as it crosses to a column of the database."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    found, kind = f.col(quote(field.name)), field.dataType
    if isinstance(kind, types.ArrayType) and column.is_array:
        return _array_literal(found, kind.elementType).alias(field.name)
    if is_nested(kind):
        return f.to_json(found, {"ignoreNullFields": "false"}).alias(field.name)
    if isinstance(kind, types.BinaryType):
        return _hexadecimal(found).alias(field.name)
    return f.col(quote(field.name))


def _array_literal(array: "SparkColumn", kind: "DataType") -> "SparkColumn":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    def element(value: Any) -> Any:
        if isinstance(kind, types.BinaryType):
            text = _hexadecimal(value)
        elif isinstance(kind, types.TimestampType):
            text = f.to_utc_timestamp(value, f.current_timezone()).cast("string")
        else:
            text = value.cast("string")
        escaped = f.replace(f.replace(text, f.lit("\\"), f.lit("\\\\")), f.lit('"'), f.lit('\\"'))
        return f.when(value.isNull(), f.lit("NULL")).otherwise(f.concat(f.lit('"'), escaped, f.lit('"')))

    literal: SparkColumn = f.concat(f.lit("{"), f.array_join(f.transform(array, element), ","), f.lit("}"))
    return literal


def _hexadecimal(value: "SparkColumn") -> "SparkColumn":
    from pyspark.sql import functions as f

    return f.concat(f.lit("\\x"), f.lower(f.hex(value)))


def quote(name: str) -> str:
    """Return the name of a column for Spark."""
    return f"`{name.replace('`', '``')}`"
