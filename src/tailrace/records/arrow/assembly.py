"""The buffers of one Arrow record batch, allocated from Arrow's pool, filled in place and used without a copy.

Each buffer has room for the most that records of a given size may need, so that one pass over the
records is enough. The surplus costs only address space: the pool returns untouched memory, and each
buffer is cut to size before it is handed out.
"""

from collections.abc import Collection
from typing import Any

from tailrace.records.arrow.fill import HEADER_SIZE_MIN, BinaryBuffers, Fill, HeaderBuffers, Span, fill_columns
from tailrace.records.arrow.schema import COLUMN_TYPES, HEADER_TYPE, HEADERS_TYPE, pa

_OFFSET_SIZE = 4
_INT64_SIZE = 8


class ColumnBuffers:
    """Buffers for the requested columns of the records in some batches."""

    def __init__(self, columns: Collection[str], row_count_max: int, size_bytes: int) -> None:
        self._offset = _allocate(row_count_max * _INT64_SIZE) if "offset" in columns else None
        self._timestamp = _allocate(row_count_max * _INT64_SIZE) if "timestamp" in columns else None
        self._key = _allocate_binary(row_count_max, size_bytes) if "key" in columns else None
        self._value = _allocate_binary(row_count_max, size_bytes) if "value" in columns else None
        self._header = _allocate_headers(row_count_max, size_bytes) if "headers" in columns else None

    def fill(self, spans: list[Span], start_offset: int, end_offset: int) -> Fill:
        """Write the records with offsets in [start_offset, end_offset)."""
        return Fill._make(
            fill_columns(
                spans, start_offset, end_offset, self._offset, self._timestamp, self._key, self._value, self._header
            )
        )

    def arrays(self, fill: Fill) -> dict[str, Any]:
        """Return the filled columns by name. They own the buffers from then on."""
        arrays = {}
        for name, fixed in (("offset", self._offset), ("timestamp", self._timestamp)):
            if fixed is not None:
                fixed.resize(fill.row_count * _INT64_SIZE)
                arrays[name] = pa.Array.from_buffers(COLUMN_TYPES[name], fill.row_count, [None, fixed], 0)
        for name, buffers, counts in (("key", self._key, fill.key), ("value", self._value, fill.value)):
            if buffers is not None:
                arrays[name] = _finish_binary(pa.binary(), buffers, fill.row_count, *counts)
        if self._header is not None:
            arrays["headers"] = _finish_headers(self._header, fill)
        return arrays


def _allocate(size_bytes: int) -> Any:
    return pa.allocate_buffer(size_bytes, resizable=True)


def _allocate_validity(entry_count: int) -> Any:
    return _allocate((entry_count + 7) // 8)


def _allocate_offsets(entry_count: int) -> Any:
    return _allocate((entry_count + 1) * _OFFSET_SIZE)


def _allocate_binary(entry_count: int, size_bytes: int, is_nullable: bool = True) -> BinaryBuffers:
    validity = _allocate_validity(entry_count) if is_nullable else None
    return BinaryBuffers(validity, _allocate_offsets(entry_count), _allocate(size_bytes))


def _allocate_headers(row_count: int, size_bytes: int) -> HeaderBuffers:
    header_count = size_bytes // HEADER_SIZE_MIN
    return HeaderBuffers(
        _allocate_validity(row_count),
        _allocate_offsets(row_count),
        _allocate_binary(header_count, size_bytes, is_nullable=False),
        _allocate_binary(header_count, size_bytes),
    )


def _finish_validity(validity: Any, entry_count: int, null_count: int) -> Any:
    if null_count == 0:
        return None
    validity.resize((entry_count + 7) // 8)
    return validity


def _finish_binary(kind: Any, buffers: BinaryBuffers, entry_count: int, size_bytes: int, null_count: int) -> Any:
    buffers.offsets.resize((entry_count + 1) * _OFFSET_SIZE)
    buffers.data.resize(size_bytes)
    validity = _finish_validity(buffers.validity, entry_count, null_count)
    return pa.Array.from_buffers(kind, entry_count, [validity, buffers.offsets, buffers.data], null_count)


def _finish_headers(buffers: HeaderBuffers, fill: Fill) -> Any:
    count, null_count = fill.header
    key_size_bytes, has_non_ascii_key = fill.header_key
    keys = _finish_binary(pa.string(), buffers.key, count, key_size_bytes, 0)
    if has_non_ascii_key:
        keys = _mend_text(keys)
    values = _finish_binary(pa.binary(), buffers.value, count, *fill.header_value)
    buffers.offsets.resize((fill.row_count + 1) * _OFFSET_SIZE)
    validity = _finish_validity(buffers.validity, fill.row_count, null_count)
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    return pa.Array.from_buffers(
        HEADERS_TYPE, fill.row_count, [validity, buffers.offsets], null_count, children=[headers]
    )


def _mend_text(array: Any) -> Any:
    """Replace bytes that are not UTF-8, as Java does, so that one wrong producer does not stop a consumer."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = [text.decode("utf-8", "replace") for text in array.cast(pa.binary()).to_pylist()]
        return pa.array(texts, pa.string())
    return array
