"""The decoder from a fetch of one partition to Arrow record batches.

    decoder = ColumnDecoder("page_views", 0, ["key", "value", "timestamp"])
    for decoded in decoder.decode(response_bytes, start_offset=position):
        use(decoded.record_batch)
        position = decoded.next_offset

Several batches become one record batch, up to a size limit: Arrow's offsets have 32 bits, and a
reader should hold only a part of a large fetch decompressed at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tailrace.base.limits import COLUMN_CHUNK_BYTES_MAX, DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.base.sentinel import INT32_MAX, INT64_MAX
from tailrace.records.arrow.assembly import ColumnBuffers
from tailrace.records.arrow.fill import Fill, Span
from tailrace.records.arrow.scan import BatchScan, Chunk, ScanOptions
from tailrace.records.arrow.schema import ALL_COLUMNS, pa, schema_of
from tailrace.records.batch import Buffer
from tailrace.records.transaction_filter import AbortedTransaction, TransactionFilter
from tailrace.records.walk import WalkError


class DecodedColumns(NamedTuple):
    """Some records, possibly none, and the next offset to fetch after them."""

    record_batch: Any  # pyarrow.RecordBatch
    next_offset: int


class ColumnDecoder:
    """Decodes fetches of one partition; all record batches have the same `schema`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        columns: Sequence[str] = ALL_COLUMNS,
        *,
        check_crcs: bool = True,
        chunk_bytes_max: int = COLUMN_CHUNK_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    ) -> None:
        """Columns that are not requested cost nothing. A batch larger than `chunk_bytes_max` is not split."""
        self.schema = schema_of(columns)
        self._columns = frozenset(columns)
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._repeated: dict[Any, Any] = {}
        self._options = ScanOptions(
            label=f"{topic}-{partition}",
            check_crcs=check_crcs,
            chunk_bytes_max=min(chunk_bytes_max, INT32_MAX),
            chunk_rows_max=INT32_MAX // max(1, len(topic.encode())) if "topic" in columns else INT32_MAX,
            decompressed_bytes_max=decompressed_bytes_max,
        )

    def decode(
        self,
        buffer: Buffer,
        start_offset: int = 0,
        end_offset: int | None = None,
        aborted: Iterable[AbortedTransaction] = (),
    ) -> Iterator[DecodedColumns]:
        """Yield the records with offsets in [start_offset, end_offset).

        `aborted` is the list of aborted transactions in a fetch response for committed records. A partial
        last batch is skipped, because brokers truncate there. If the buffer has a whole batch, there is at
        least one result, possibly without records. Raise a `RecordError` at a damaged batch, after yielding
        the records before it.
        """
        end_offset = INT64_MAX if end_offset is None else end_offset
        scan = BatchScan(buffer, start_offset, end_offset, TransactionFilter(aborted), self._options)
        for chunk in scan.chunks():
            yield from self._build(chunk, start_offset, end_offset)

    def _build(self, chunk: Chunk, start_offset: int, end_offset: int) -> Iterator[DecodedColumns]:
        """Yield the record batch of a chunk. At a damaged record, yield the batches before it, then raise."""
        buffers = ColumnBuffers(self._columns, chunk.row_count_max, chunk.size_bytes)
        fill = buffers.fill(chunk.spans, start_offset, end_offset)
        if fill.fault is None:
            yield DecodedColumns(self._assemble(buffers, fill, chunk), chunk.next_offset)
            return
        error, span_index, record_index = fill.fault
        base_offset = Span._make(chunk.spans[span_index]).base_offset
        if span_index > 0:
            yield DecodedColumns(self._assemble(buffers, fill, chunk), max(start_offset, base_offset))
        raise self._options.corrupt(base_offset, f"record {record_index}: {WalkError(error).text}")

    def _assemble(self, buffers: ColumnBuffers, fill: Fill, chunk: Chunk) -> Any:
        arrays = buffers.arrays(fill)
        if "topic" in self._columns:
            arrays["topic"] = self._repeat(self._topic, fill.row_count)
        if "partition" in self._columns:
            arrays["partition"] = self._repeat(self._partition, fill.row_count)
        if "timestampType" in self._columns:
            kind = pa.scalar(int(chunk.timestamp_type or 0), pa.int32())
            arrays["timestampType"] = self._repeat(kind, fill.row_count)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _repeat(self, value: Any, row_count: int) -> Any:
        """Return a column of one value, as a slice of the longest one so far, which is immutable."""
        column = self._repeated.get(value)
        if column is None or len(column) < row_count:
            column = self._repeated[value] = pa.repeat(value, row_count)
        return column[:row_count]
