"""The builder of record batches, for clients and for records that a broker writes."""

from collections.abc import Iterable, Sequence

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import INT32_MAX, INT64_MAX, NO_EPOCH
from tailrace.records.batch import (
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    write_crc,
)
from tailrace.records.compression import Compression, compress
from tailrace.records.varint import varint_size, write_varint

_NULL_SIZE = -1


class BatchBuilder:
    """Collects records and builds one batch with base offset 0."""

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        *,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        size_bytes_max: int = INT32_MAX,
    ) -> None:
        self.record_count = 0
        self._compression = compression
        self._level = level
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._attributes = (
            int(compression) | (TRANSACTIONAL_FLAG if is_transactional else 0) | (CONTROL_FLAG if is_control else 0)
        )
        self._size_bytes_max = size_bytes_max
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._body = bytearray()

    @property
    def size_bytes(self) -> int:
        """The size of the batch before compression."""
        return HEADER_SIZE + len(self._body)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> bool:
        """Add a record, or return False if the batch would be larger than allowed.

        The first record is always accepted, as in Kafka, because no other batch would have more room for it.
        """
        invariant(NO_TIMESTAMP <= timestamp <= INT64_MAX, "a timestamp is -1 or milliseconds since the epoch")
        base_timestamp = self._base_timestamp if self.record_count else timestamp
        pairs = [(header_key.encode(), header_value) for header_key, header_value in headers]
        record = encode_record(self.record_count, timestamp - base_timestamp, key, value, pairs)
        size_bytes = varint_size(len(record)) + len(record)
        if self.record_count and self.size_bytes + size_bytes > self._size_bytes_max:
            return False
        write_varint(self._body, len(record))
        self._body += record
        self._base_timestamp = base_timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.record_count += 1
        return True

    def build(self) -> bytes:
        """Return the batch with its checksum."""
        invariant(self.record_count > 0, "a batch has at least one record")
        is_plain = self._compression is Compression.NONE
        payload = self._body if is_plain else compress(self._compression, self._body, self._level)
        batch = bytearray(HEADER_SIZE + len(payload))
        batch[HEADER_SIZE:] = payload
        seal_batch(
            batch,
            attributes=self._attributes,
            record_count=self.record_count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._base_sequence,
        )
        return bytes(batch)


def seal_batch(
    batch: bytearray,
    *,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    has_checksum: bool = True,
) -> None:
    """Write the header of the records in `batch`, with the checksum unless that is set later."""
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD,
        NO_EPOCH,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    if has_checksum:
        write_crc(batch, 0, len(batch))


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
) -> bytearray:
    """Return a record without its length prefix."""
    output = bytearray(1)  # attributes; no bit is defined
    write_varint(output, timestamp_delta)
    write_varint(output, offset_delta)
    _write_field(output, key)
    _write_field(output, value)
    write_varint(output, len(headers))
    for header_key, header_value in headers:
        _write_field(output, header_key)
        _write_field(output, header_value)
    return output


def _write_field(output: bytearray, field: bytes | None) -> None:
    if field is None:
        write_varint(output, _NULL_SIZE)
        return
    write_varint(output, len(field))
    output += field
