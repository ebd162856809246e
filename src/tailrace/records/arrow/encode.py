"""The encoder from rows of an Arrow record batch to record batches that can be sent.

    encoder = RowEncoder(record_batch, timestamp_ms=now_ms)
    start = 0
    while start < encoder.row_count:
        encoded = encoder.encode(start, size_bytes_max=1_000_000, compression=Compression.ZSTD)
        send(encoded.batch)
        start += encoded.row_count

The encoder reads the columns `key`, `value`, `headers` and `timestamp`; only `value` is required.
The caller chooses the partition of each row: `encode` takes the numbers of the rows to write.
"""

from typing import Any, NamedTuple

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.arrow.column import read_binary, read_headers, read_timestamps
from tailrace.records.arrow.row import RowError, RowWriter, WrittenRows, make_row_writer
from tailrace.records.arrow.schema import pa
from tailrace.records.batch import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from tailrace.records.builder import seal_batch
from tailrace.records.compression import Compression, compress


class EncodedRows(NamedTuple):
    """A batch with base offset 0, and the number of rows in it."""

    batch: bytearray
    row_count: int


class RowEncoder:
    """Encodes the rows of one `pyarrow.RecordBatch`, in any order and in several batches."""

    def __init__(self, record_batch: Any, *, timestamp_ms: int = NO_TIMESTAMP) -> None:
        """`timestamp_ms` is used for rows without a timestamp. Raise `ColumnTypeError` for a column of a wrong type."""
        if not isinstance(record_batch, pa.RecordBatch):
            raise TypeError(f"expected a pyarrow.RecordBatch, got {type(record_batch).__name__}; see Table.to_batches")
        columns = dict(zip(record_batch.schema.names, record_batch.columns, strict=True))
        if "value" not in columns:
            raise ValueError(f"the column 'value' is missing; the columns are: {', '.join(columns) or 'none'}")
        nothing = pa.nulls(0)
        self.row_count: int = record_batch.num_rows
        self._writer: RowWriter = make_row_writer(
            self.row_count,
            read_binary("key", columns.get("key", nothing)),
            read_binary("value", columns["value"]),
            read_headers(columns.get("headers", nothing)),
            read_timestamps(columns.get("timestamp", nothing)),
            timestamp_ms,
        )

    def encode(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        rows: Any | None = None,
        size_bytes_max: int = INT32_MAX,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        has_checksum: bool = True,
    ) -> EncodedRows:
        """Encode one batch of the rows from `start` to `stop`, or fewer if it would exceed `size_bytes_max`.

        With `rows`, an int32 array of row numbers, `start` and `stop` are indexes into it. The first row is
        always included, as in Kafka, because no other batch would have more room for it. The size limit
        applies before compression. Without `has_checksum` the batch is incomplete until `set_producer`. Raise
        `ValueError` for a row that cannot be a record.
        """
        written = self._write(start, stop, rows, size_bytes_max)
        batch = written.output
        if compression is not Compression.NONE:
            packed = compress(compression, memoryview(batch)[HEADER_SIZE:], level)
            batch = bytearray(HEADER_SIZE + len(packed))
            batch[HEADER_SIZE:] = packed
        seal_batch(
            batch,
            attributes=int(compression) | (TRANSACTIONAL_FLAG if is_transactional else 0),
            record_count=written.row_count,
            base_timestamp=written.base_timestamp,
            max_timestamp=written.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            has_checksum=has_checksum,
        )
        return EncodedRows(batch, written.row_count)

    def _write(self, start: int, stop: int | None, rows: Any | None, size_bytes_max: int) -> WrittenRows:
        numbers = None if rows is None else _row_numbers(rows)
        if stop is None:
            stop = self.row_count if rows is None else len(rows)
        room = min(size_bytes_max, INT32_MAX) - HEADER_SIZE
        written = WrittenRows._make(self._writer.encode(numbers, start, stop, room, HEADER_SIZE))
        if written.error:
            raise ValueError(f"row {start + written.row_count}: {RowError(written.error).text}")
        return written


def _row_numbers(rows: Any) -> Any:
    """Return the buffer of an int32 array without nulls."""
    if rows.type != pa.int32() or rows.null_count:
        raise TypeError(f"row numbers must be int32 without nulls, but the array is {rows.type}")
    return rows.buffers()[1].slice(rows.offset * 4, len(rows) * 4)
