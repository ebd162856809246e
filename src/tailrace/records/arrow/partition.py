"""The choice of a partition for each row of a table, and the grouping of rows by partition.

    partitions = partition_keys(table_batch["key"], partition_count)   # null where the key is
    for partition, rows in enumerate(group_rows(partitions.fill_null(sticky), partition_count)):
        encoder.encode(rows=rows, ...)

Both steps have a native twin in `_partition.pxi`.
"""

from array import array
from collections.abc import Callable
from typing import Any, TypeAlias

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.arrow.column import BinaryColumn, read_binary
from tailrace.records.arrow.row import RowError, RowFault, RowSource
from tailrace.records.arrow.schema import pa
from tailrace.records.murmur2 import partition_for_key
from tailrace.records.native import find_native

HashFunction: TypeAlias = Callable[[BinaryColumn, int, Any, Any], int]
GroupFunction: TypeAlias = Callable[[Any, int, int, Any], tuple[int, list[int]]]


def hash_keys_python(column: BinaryColumn, partition_count: int, partitions: Any, validity: Any) -> int:
    """Write the partition of each key, and a validity bit that is clear for a null key; return a `RowError`."""
    target = memoryview(partitions).cast("B").cast("i")
    bitmap = memoryview(validity).cast("B")
    if 8 * len(bitmap) < column.entry_count or len(target) < column.entry_count or partition_count < 1:
        raise ValueError("the partitions have no room for the rows")
    bitmap[:] = b"\xff" * len(bitmap)
    source = RowSource(column)
    for row in range(column.entry_count):
        try:
            key = source.field(row)
        except RowFault as fault:
            return fault.error
        target[row] = 0 if key is None else partition_for_key(key, partition_count)
        if key is None:
            bitmap[row >> 3] &= ~(1 << (row & 7))
    return RowError.NONE


def group_rows_python(partitions: Any, row_count: int, partition_count: int, rows: Any) -> tuple[int, list[int]]:
    """Write the row numbers grouped by partition, in row order within each group.

    Return the first row with an invalid partition, or -1, and the end of each partition's group.
    """
    source = memoryview(partitions).cast("B").cast("i")
    target = memoryview(rows).cast("B").cast("i")
    if not 0 <= row_count <= min(len(source), len(target), INT32_MAX):
        raise ValueError("the rows have no room")
    groups: list[array[int]] = [array("i") for _ in range(partition_count)]
    for row in range(row_count):
        if not 0 <= source[row] < partition_count:
            return row, []
        groups[source[row]].append(row)
    ends, end = [], 0
    for group in groups:
        target[end : end + len(group)] = memoryview(group)
        end += len(group)
        ends.append(end)
    return -1, ends


_hash_keys: HashFunction = find_native("hash_keys") or hash_keys_python
_group_rows: GroupFunction = find_native("group_rows") or group_rows_python
IS_NATIVE = _hash_keys is not hash_keys_python


def partition_keys(keys: Any, partition_count: int) -> Any:
    """Return the partition of each key of an Arrow array, as Kafka's default partitioner chooses it.

    The result is an int32 array, null where the key is null.
    """
    column = read_binary("key", keys)
    if column is None:
        return pa.nulls(len(keys), pa.int32())
    partitions = pa.allocate_buffer(len(keys) * 4)
    validity = pa.allocate_buffer((len(keys) + 7) // 8)
    error = _hash_keys(column, partition_count, partitions, validity)
    if error:
        raise ValueError(f"column 'key': {RowError(error).text}")
    return pa.Array.from_buffers(pa.int32(), len(keys), [validity if keys.null_count else None, partitions])


def group_rows(partitions: Any, partition_count: int) -> list[Any]:
    """Group rows by partition: return the row numbers of each partition, as int32 arrays."""
    if partitions.type != pa.int32() or partitions.null_count:
        raise TypeError(f"partitions must be int32 without nulls, but the array is {partitions.type}")
    row_count = len(partitions)
    source = partitions.buffers()[1].slice(partitions.offset * 4, row_count * 4)
    rows = pa.allocate_buffer(row_count * 4)
    fault, ends = _group_rows(source, row_count, partition_count, rows)
    if fault >= 0:
        raise ValueError(f"row {fault} has partition {partitions[fault]}, but there are {partition_count} partitions")
    order = pa.Array.from_buffers(pa.int32(), row_count, [None, rows])
    return [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
