"""The conversion of user-supplied Arrow columns to the layouts that the encoder reads.

Keys and values may be `binary`, `string`, their large and view forms, of fixed size, dictionaries
of these, or all null. Headers are lists of structs of a key and a value. Timestamps are Arrow
timestamps in any unit, or milliseconds as 64-bit integers.
"""

from typing import Any, NamedTuple

from tailrace.records.arrow.schema import pa


class ColumnTypeError(TypeError):
    """A column has a type that cannot be stored in a record. The message names both."""


class BinaryColumn(NamedTuple):
    """The buffers of a column of bytes, or of a column of lists, which has no data buffer."""

    is_large: bool  # the offsets have 64 bits
    shift: int  # the index of the first row in the buffers
    entry_count: int
    validity: Any | None  # None if the column has no nulls
    offsets: Any
    data: Any | None


class HeaderColumns(NamedTuple):
    """A list for each row, and the keys and values of all headers in the lists."""

    lists: BinaryColumn
    keys: BinaryColumn
    values: BinaryColumn | None  # None if all are null


class TimestampColumn(NamedTuple):
    """Timestamps in milliseconds, as 64-bit integers."""

    shift: int
    validity: Any | None
    data: Any


def read_binary(name: str, array: Any) -> BinaryColumn | None:
    """Return the buffers of a column of bytes, or None if all rows are null."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_null(kind) or len(array) == array.null_count:
        return None
    if not _is_plain_binary(kind):
        array = _cast_binary(name, array)
    return _describe(array)


def _describe(array: Any) -> BinaryColumn:
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    validity, offsets, data = array.buffers()
    return BinaryColumn(is_large, array.offset, len(array), _validity(array, validity), offsets, data)


def _is_plain_binary(kind: Any) -> bool:
    return kind in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def _cast_binary(name: str, array: Any) -> Any:
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    is_view = pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)
    if not (is_view or pa.types.is_fixed_size_binary(kind) or _is_plain_binary(kind)):
        raise ColumnTypeError(f"column {name!r} is {array.type}; cast it to binary or string")
    # In two steps, because Arrow does not cast a dictionary or a view of text directly to bytes.
    text = pa.types.is_string_view(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return array.cast(pa.large_string() if text else pa.large_binary())


def _validity(array: Any, validity: Any) -> Any | None:
    return validity if array.null_count else None


def read_headers(array: Any) -> HeaderColumns | None:
    """Return the buffers of a column of headers, or None if no row has any."""
    kind = array.type
    if pa.types.is_null(kind) or len(array) == array.null_count:
        return None
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not _is_header(kind.value_type):
        raise ColumnTypeError(f"column 'headers' is {kind}; it must be list<struct<key: string, value: binary>>")
    validity, offsets = array.buffers()[:2]
    is_large = pa.types.is_large_list(kind)
    lists = BinaryColumn(is_large, array.offset, len(array), _validity(array, validity), offsets, None)
    # A null header becomes a header with a null key, which is rejected if a row uses it.
    columns = dict(zip([field.name for field in kind.value_type], array.values.flatten(), strict=True))
    keys = read_binary("headers.key", columns["key"]) or _describe(pa.nulls(len(columns["key"]), pa.string()))
    return HeaderColumns(lists, keys, read_binary("headers.value", columns["value"]))


def _is_header(kind: Any) -> bool:
    return pa.types.is_struct(kind) and sorted(field.name for field in kind) == ["key", "value"]


def read_timestamps(array: Any) -> TimestampColumn | None:
    """Return the buffers of a column of timestamps, or None if all rows are null."""
    kind = array.type
    if pa.types.is_null(kind) or len(array) == array.null_count:
        return None
    if pa.types.is_timestamp(kind):
        from pyarrow.compute import CastOptions

        options = CastOptions(target_type=pa.timestamp("ms", kind.tz), allow_time_truncate=True)
        array = array.cast(options=options)
    elif not pa.types.is_int64(kind):
        raise ColumnTypeError(f"column 'timestamp' is {kind}; cast it to timestamp, or to int64 milliseconds")
    validity, data = array.buffers()
    return TimestampColumn(array.offset, _validity(array, validity), data)
