"""The columns of a table and those of the rows that are written to it: which fit, which are new. Pure."""

from collections.abc import Iterable

import pyarrow as pa

from tailrace.spark.error import PipelineError

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type in the form that Spark has: libraries differ in the width of offsets and the name of UTC."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type), each.nullable) for each in kind])
    return kind


def plain_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return columns with plain types, and without metadata."""
    return pa.schema([pa.field(each.name, plain_type(each.type), each.nullable) for each in fields])


def fits(column: pa.DataType, given: pa.DataType) -> bool:
    """Return whether a column takes all values of a type. Both types are plain."""
    if column.equals(given):
        return True
    if given in _INTEGERS and column in _INTEGERS:
        return _INTEGERS.index(given) <= _INTEGERS.index(column)
    if pa.types.is_float32(given):
        return bool(pa.types.is_float64(column))
    if pa.types.is_decimal(given) and pa.types.is_decimal(column):
        digits = column.precision - column.scale >= given.precision - given.scale
        return bool(digits and column.scale >= given.scale)
    if pa.types.is_list(given) and pa.types.is_list(column):
        return fits(column.value_type, given.value_type)
    if pa.types.is_map(given) and pa.types.is_map(column):
        return fits(column.key_type, given.key_type) and fits(column.item_type, given.item_type)
    if pa.types.is_struct(given) and pa.types.is_struct(column):
        known = {each.name: each.type for each in column}
        return all(each.name in known and fits(known[each.name], each.type) for each in given)
    return False


def new_columns(table: object, columns: pa.Schema, given: pa.Schema, *, evolve: bool) -> list[pa.Field]:
    """Return the columns that the table lacks; raises `PipelineError` for one that it cannot take."""
    known = {each.name: each for each in columns}
    lower = {each.name.lower(): each.name for each in columns}
    new = []
    for each in given:
        if each.name in known:
            column = known[each.name]
            if not fits(column.type, each.type):
                raise PipelineError(
                    f"{table}: column {each.name} is {column.type}, and cannot take {each.type} of the result; "
                    "cast it, or give it another name"
                )
        elif each.name.lower() in lower:
            raise PipelineError(f"{table}: column {each.name} is {lower[each.name.lower()]} in the table; rename it")
        elif not evolve:
            raise PipelineError(f"{table} has no column {each.name}, and evolve= is False")
        else:
            new.append(each.with_nullable(True))
    written = set(given.names)
    for column in columns:
        if not column.nullable and column.name not in written:
            raise PipelineError(f"{table}: column {column.name} must have a value, and the result lacks it")
    return new


def fit_rows(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows with the columns of a table; those that the rows lack are null."""
    arrays = []
    for each in columns:
        if each.name in rows.schema.names:
            arrays.append(rows.column(each.name).cast(each.type))
        else:
            arrays.append(pa.nulls(rows.num_rows, each.type))
    return pa.table(arrays, schema=pa.schema([each.with_nullable(True) for each in columns]))
