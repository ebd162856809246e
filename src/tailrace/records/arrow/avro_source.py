"""Arrow columns in the layouts from which Avro values are written: one column for each node of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.records.arrow.avro_plan import Column, Node, Op
from tailrace.records.arrow.column import ColumnTypeError
from tailrace.records.arrow.schema import pa

_STORAGE = {Op.INT: pa.int32(), Op.LONG: pa.int64(), Op.BYTES: pa.binary()}


@dataclass(frozen=True, slots=True)
class Source:
    """The column of a node. Dates, times and timestamps are integers, enums are indexes, strings are bytes."""

    column: Column
    array: Any
    children: "tuple[Source, ...]"

    def buffers(self) -> tuple[int, Any, Any, Any]:
        """Return the index of the first entry, and the buffers of validity, offsets and data."""
        buffers = self.array.buffers()
        validity = buffers[0] if self.array.null_count and buffers else None
        has_offsets = self.column.op in (Op.BYTES, Op.ARRAY, Op.MAP)
        offsets = buffers[1] if has_offsets else None
        is_leaf = not self.column.children and self.column.op not in (Op.RECORD, Op.UNION, Op.NULL)
        return self.array.offset, validity, offsets, buffers[2 if has_offsets else 1] if is_leaf else None


class SourceFinder:
    """Finds the columns of a plan in an array."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def find(self, array: Any, column: Column, place: str) -> Source:
        """Cast an array and those below it. Raise `ColumnTypeError` if that is not possible."""
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if column.op is Op.NULL:
            return Source(column, pa.nulls(len(array)), ())
        if pa.types.is_null(array.type):
            array = pa.nulls(len(array), column.type)
        if column.op in (Op.RECORD, Op.UNION):
            return Source(column, array, tuple(self._fields(array, column, place)))
        if column.op is Op.ARRAY:
            array = _as_list(array, place)
            return Source(column, array, (self.find(array.values, column.children[0], f"items of {place}"),))
        if column.op is Op.MAP:
            if not pa.types.is_map(array.type):
                raise ColumnTypeError(f"{place} is {array.type}; the schema needs a map")
            keys = self.find(array.keys, column.children[0], f"keys of {place}")
            return Source(column, array, (keys, self.find(array.items, column.children[1], f"values of {place}")))
        return Source(column, _leaf(array, column, place), ())

    def _fields(self, array: Any, column: Column, place: str) -> list[Source]:
        if not pa.types.is_struct(array.type):
            raise ColumnTypeError(f"{place} is {array.type}; the schema needs a struct")
        sources = []
        for name, child in zip(column.names, column.children, strict=True):
            index = array.type.get_field_index(name)
            if index >= 0:
                field = array.field(index)
            elif column.op is Op.UNION or child.op is Op.NULL or self._nodes[child.index].null_branch >= 0:
                field = pa.nulls(len(array), child.type)
            else:
                raise ColumnTypeError(f"{place}: the column {name!r} is missing, and the schema does not allow null")
            sources.append(self.find(field, child, f"column {name!r}"))
        return sources


def _as_list(array: Any, place: str) -> Any:
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_type))
    if not pa.types.is_list(array.type):
        raise ColumnTypeError(f"{place} is {array.type}; the schema needs a list")
    return array


def _leaf(array: Any, column: Column, place: str) -> Any:
    try:
        array = array.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(f"{place} is {array.type}; the schema needs {column.type}: {error}") from None
    if column.op is Op.ENUM:
        return _indexes(array, column, place)
    storage = _STORAGE.get(column.op)
    return array if storage is None else array.view(storage)


def _indexes(array: Any, column: Column, place: str) -> Any:
    import pyarrow.compute as pc

    indexes = pc.index_in(array, value_set=pa.array(column.names, pa.string()))
    if indexes.null_count > array.null_count:
        unknown = array.filter(pc.and_(pc.is_valid(array), pc.is_null(indexes)))[0]
        raise ColumnTypeError(f"{place}: {unknown.as_py()!r} is not a symbol of the enum")
    return indexes
