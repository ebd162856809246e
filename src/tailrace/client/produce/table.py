"""Arrow tables as records: the partitions of rows, and the delivery of a whole table."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.client.metadata import Topic
from tailrace.client.produce.core import ProducerCore, check_partition
from tailrace.client.produce.delivery import Outcome
from tailrace.client.produce.row import Row
from tailrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

WRITABLE_COLUMNS = ("key", "value", "headers", "partition", "timestamp")
_ROWS_PER_STEP_MAX = 1 << 20  # the number of rows whose indexes are in memory at once
_ROWS_JOINED_MAX = 1 << 14  # tables with smaller chunks are combined first


class PartitionDelivery(NamedTuple):
    """The number of rows and the offsets of a table in one partition; -1 if brokers do not return offsets."""

    record_count: int
    first_offset: int
    last_offset: int


class TableDelivery(NamedTuple):
    """The number of rows of a written table, and their partitions and offsets."""

    topic: str
    record_count: int
    partitions: dict[int, PartitionDelivery]


class EncodedRows(NamedTuple):
    """A batch of rows for one partition."""

    partition: int
    data: bytearray
    record_count: int


class TableReceipt:
    """Waits for every batch of one table. `on_done` is called once, with the delivery or with the first error."""

    def __init__(self, topic: str, on_done: Callable[[TableDelivery | None, Exception | None], None]) -> None:
        self._topic = topic
        self._on_done = on_done
        self._lock = threading.Lock()
        self._left = 1  # the table itself, until all its batches are added
        self._partitions: dict[int, PartitionDelivery] = {}
        self._error: Exception | None = None

    def add(self) -> None:
        """Count one more batch."""
        with self._lock:
            self._left += 1

    def sent(self, error: Exception | None = None) -> None:
        """Note that all batches are added, or the error that prevented it."""
        self._count(error)

    def part(self, start: int, stop: int) -> "TableReceipt":
        """Return the receipt for a part of a split batch, which is this one."""
        if start == 0:
            self.add()  # a split batch has two outcomes instead of one
        return self

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Note the offsets of a written batch."""
        first = outcome.base_offset
        last = first if first < 0 else first + record_count - 1
        with self._lock:
            before = self._partitions.get(target.partition)
            self._partitions[target.partition] = (
                PartitionDelivery(record_count, first, last)
                if before is None
                else PartitionDelivery(before.record_count + record_count, before.first_offset, max(before[2], last))
            )
        self._count(None)

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Note the error of a batch."""
        self._count(error)

    def _count(self, error: Exception | None) -> None:
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            is_done = self._left == 0
        if not is_done:
            return
        if self._error is not None:
            self._on_done(None, self._error)
            return
        count = sum(delivery.record_count for delivery in self._partitions.values())
        self._on_done(TableDelivery(self._topic, count, dict(sorted(self._partitions.items()))), None)


def encode_table(core: ProducerCore, topic: Topic, table: Any) -> Iterator[EncodedRows]:
    """Iterate over the rows as batches, in order within each partition; raises if they cannot be written."""
    for record_batch in _record_batches(table):
        yield from _encode_batch(core, topic, record_batch)


def check_table(table: Any) -> "pa.Table":
    """Convert an object to a table; raises TypeError or ValueError if it is none or has other columns."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(f"{type(table).__name__} is not an Arrow table")
        table = pa.table(table)
    for name in table.column_names:
        if name not in WRITABLE_COLUMNS:
            known = ", ".join(WRITABLE_COLUMNS)
            raise ValueError(f"column {name!r} cannot be written; a record has {known}: select or rename columns")
    if "value" not in table.column_names:
        raise ValueError("the table has no column 'value'; add one, with nulls for records without a value")
    return table


def _record_batches(table: "pa.Table") -> Iterator["pa.RecordBatch"]:
    chunk_count = max((column.num_chunks for column in table.columns), default=0)
    if chunk_count > 1 and table.num_rows // chunk_count < _ROWS_JOINED_MAX:
        table = table.combine_chunks()
    yield from table.to_batches(max_chunksize=_ROWS_PER_STEP_MAX)


def _encode_batch(core: ProducerCore, topic: Topic, record_batch: "pa.RecordBatch") -> Iterator[EncodedRows]:
    from tailrace.records.arrow.encode import RowEncoder

    if not record_batch.num_rows:
        return
    encoder = RowEncoder(record_batch, timestamp_ms=time.time_ns() // 1_000_000)
    settings = core.settings
    options: dict[str, Any] = {
        "size_bytes_max": settings.batch_size,
        "compression": settings.compression,
        "level": settings.compression_level,
        "is_transactional": settings.transactional_id is not None,
        "has_checksum": False,  # it is set once, with the sequence number, when the batch is sent
    }
    partitions = _choose_partitions(core, topic, record_batch)
    if partitions is None:
        start = 0
        while start < encoder.row_count:
            encoded = encoder.encode(start, **options)
            start += encoded.row_count
            yield EncodedRows(core.stick(topic, settings.batch_size), encoded.batch, encoded.row_count)
        return
    yield from _encode_groups(encoder, partitions, options)


def _encode_groups(encoder: Any, groups: dict[int, Any], options: dict[str, Any]) -> Iterator[EncodedRows]:
    """Iterate over the partitions in turn, so that all leaders get batches at the same time."""
    starts = dict.fromkeys(groups, 0)
    while starts:
        for partition, start in list(starts.items()):
            rows = groups[partition]
            encoded = encoder.encode(start, rows=rows, **options)
            yield EncodedRows(partition, encoded.batch, encoded.row_count)
            starts[partition] = start + encoded.row_count
            if starts[partition] >= len(rows):
                del starts[partition]


def _choose_partitions(core: ProducerCore, topic: Topic, record_batch: "pa.RecordBatch") -> dict[int, Any] | None:
    """Return the indexes of the rows of each partition; None if any partition may have any row."""
    from tailrace.records.arrow.partition import group_rows

    count = len(topic.partitions)
    chosen = _explicit(topic, record_batch)
    if chosen is None or chosen.null_count:
        found = _by_key(core, topic, record_batch)
        if chosen is None:
            chosen = found
        elif found is not None:
            chosen = _coalesce(chosen, found)
    if chosen is None:
        return None
    if chosen.null_count:
        size_bytes = record_batch.nbytes * chosen.null_count // max(1, record_batch.num_rows)
        chosen = chosen.fill_null(core.stick(topic, size_bytes))
    return {partition: rows for partition, rows in enumerate(group_rows(chosen, count)) if len(rows)}


def _coalesce(first: Any, second: Any) -> Any:
    import pyarrow.compute as pc

    return pc.coalesce(first, second)


def _explicit(topic: Topic, record_batch: "pa.RecordBatch") -> Any | None:
    """Return the column of partitions as int32; None if there is none or all of it is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "partition" not in record_batch.schema.names:
        return None
    column = record_batch.column("partition")
    if column.null_count == len(column):
        return None
    if not pa.types.is_integer(column.type):
        raise TypeError(f"column 'partition' is {column.type}; cast it to int32")
    for bound in pc.min_max(column).as_py().values():
        check_partition(topic, bound)
    return column.cast(pa.int32())


def _by_key(core: ProducerCore, topic: Topic, record_batch: "pa.RecordBatch") -> Any | None:
    """Return the partitions by keys or by the user's partitioner, null for rows without; None without both."""
    import pyarrow as pa

    from tailrace.records.arrow.partition import partition_keys

    if core.partitioner is not None:
        return _by_partitioner(core, topic, record_batch)
    if not core.chooses_by_key or "key" not in record_batch.schema.names:
        return None
    keys = record_batch.column("key")
    if pa.types.is_null(keys.type) or keys.null_count == len(keys):
        return None
    return partition_keys(keys, len(topic.partitions))


def _by_partitioner(core: ProducerCore, topic: Topic, record_batch: "pa.RecordBatch") -> Any:
    """Call the user's partitioner for each row, which is slow."""
    import pyarrow as pa

    columns = record_batch.schema.names
    empty = [None] * record_batch.num_rows
    keys = record_batch.column("key").cast(pa.binary()).to_pylist() if "key" in columns else empty
    values = record_batch.column("value").cast(pa.binary()).to_pylist()
    everywhere = range(len(topic.partitions))
    partitioner = core.partitioner
    chosen = [partitioner(topic.name, *pair, everywhere) for pair in zip(keys, values, strict=True)]  # type: ignore[misc]
    for partition in set(chosen):
        check_partition(topic, partition)
    return pa.array(chosen, pa.int32())
