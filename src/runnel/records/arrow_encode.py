"""Rows of an Arrow record batch as batches of records, ready to be sent.

    encoder = RowEncoder(record_batch, timestamp_ms=now_ms)
    start = 0
    while start < encoder.row_count:
        encoded = encoder.encode(start, size_bytes_max=1_000_000, compression=Compression.ZSTD)
        send(encoded.batch)
        start += encoded.row_count

The columns `key`, `value`, `headers` and `timestamp` are read, of which only `value` must be there.
To which partition a row goes is decided elsewhere: `encode` takes the numbers of the rows to write.
"""

from typing import Any, NamedTuple

from runnel.records.arrow_column import read_binary, read_headers, read_timestamps
from runnel.records.arrow_row import RowError, RowWriter, WrittenRows, make_row_writer
from runnel.records.arrow_schema import pa
from runnel.records.batch import (
    HEADER_SIZE,
    INT32_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from runnel.records.builder import seal_batch
from runnel.records.compression import Compression, compress


class EncodedRows(NamedTuple):
    """A batch whose base offset is 0, and how many rows it holds."""

    batch: bytearray
    row_count: int


class RowEncoder:
    """Encodes the rows of one `pyarrow.RecordBatch`, in any order and in as many batches as it takes."""

    def __init__(self, record_batch: Any, *, timestamp_ms: int = NO_TIMESTAMP) -> None:
        """`timestamp_ms` is for rows that have none. Raises `ColumnTypeError` for a column of no use."""
        if not isinstance(record_batch, pa.RecordBatch):
            raise TypeError(f"a pyarrow.RecordBatch is needed, not {type(record_batch).__name__}; see Table.to_batches")
        columns = dict(zip(record_batch.schema.names, record_batch.columns, strict=True))
        if "value" not in columns:
            raise ValueError(f"there is no column 'value' among {', '.join(columns) or 'none'}")
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
        """One batch of the rows from `start` on: up to `stop`, or fewer if it would become larger than allowed.

        With `rows`, an int32 array of row numbers, `start` and `stop` count these. The first row is
        always taken, as in Kafka: no other batch would have more room for it. The size is that before
        compression. Without `has_checksum` the batch is not whole before `set_producer`. Raises
        `ValueError` for a row that no record can hold.
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
    """The buffer of an int32 array without nulls."""
    if rows.type != pa.int32() or rows.null_count:
        raise TypeError(f"row numbers are int32 and not null, but these are {rows.type}")
    return rows.buffers()[1].slice(rows.offset * 4, len(rows) * 4)
