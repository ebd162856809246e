"""A batch of records of one partition, from the first append to the acknowledgement."""

from tailrace.base.invariant import invariant
from tailrace.client.produce.delivery import Outcome, Receipt
from tailrace.client.produce.row import ProducerStamp, Row, encode_rows
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.batch import HEADER_SIZE, NO_SEQUENCE, increment_sequence, set_producer
from tailrace.records.compression import Compression
from tailrace.records.record import read_records

NO_STAMP = ProducerStamp()


class Batch:
    """Rows that are encoded when they are sent, or a batch that is encoded already.

    `order` is the place among the batches of the partition; the parts of a split batch keep its place.

    An attempt counts as unanswered from before it is written until the broker rejects it for certain. If its connection
    breaks, if it times out, or if the broker's error says that the batch may still be written, it stays unanswered.
    """

    __slots__ = (
        "_data",
        "_stamped",
        "created_at_s",
        "failure_count",
        "is_closed",
        "not_before_s",
        "order",
        "receipt",
        "record_count",
        "rows",
        "size_bytes",
        "stamp",
        "target",
        "unanswered_count",
    )

    def __init__(self, target: TopicPartition, receipt: Receipt, created_at_s: float, order: tuple[int, ...]) -> None:
        self.target = target
        self.receipt = receipt
        self.created_at_s = created_at_s
        self.order = order
        self.rows: list[Row] = []
        self.record_count = 0
        self.size_bytes = HEADER_SIZE
        self.is_closed = False
        self.failure_count = 0
        self.unanswered_count = 0
        self.not_before_s = 0.0
        self.stamp = NO_STAMP
        self._data: bytearray | None = None
        self._stamped: ProducerStamp | None = None

    @classmethod
    def encoded(
        cls,
        target: TopicPartition,
        receipt: Receipt,
        created_at_s: float,
        order: tuple[int, ...],
        data: bytearray,
        record_count: int,
    ) -> "Batch":
        """Return a closed batch of encoded records, whose checksum may not be set yet."""
        batch = cls(target, receipt, created_at_s, order)
        batch._data = data
        batch.size_bytes = len(data)
        batch.record_count = record_count
        batch.is_closed = True
        return batch

    @property
    def has_sequence(self) -> bool:
        return self.stamp.base_sequence != NO_SEQUENCE

    @property
    def may_be_written(self) -> bool:
        """Whether an attempt to write the batch may have succeeded, although the client was told of no success."""
        return self.unanswered_count > 0

    @property
    def is_in_doubt(self) -> bool:
        """Whether the batch may be written, and must not be written twice."""
        return self.has_sequence and self.may_be_written

    @property
    def is_encoded(self) -> bool:
        """Whether the batch is encoded, except perhaps for its checksum."""
        return self._data is not None

    def append(self, row: Row, size_bytes: int) -> None:
        """Add a record."""
        self.rows.append(row)
        self.record_count += 1
        self.size_bytes += size_bytes

    def data(self, compression: Compression, level: int | None, *, is_transactional: bool = False) -> bytearray:
        """The encoded batch."""
        if self._data is None:
            self._data = encode_rows(self.rows, compression, level, self.stamp, is_transactional=is_transactional)
        elif self._stamped != self.stamp:
            set_producer(self._data, 0, *self.stamp)
        self._stamped = self.stamp
        return self._data

    def succeed(self, outcome: Outcome) -> None:
        """Report that the records are written."""
        self.receipt.succeed(self.target, self.rows, self.record_count, outcome)

    def fail(self, error: Exception) -> None:
        """Report that the records are not written, as far as the client knows."""
        self.receipt.fail(self.target, self.record_count, error)

    def split(self) -> list["Batch"]:
        """Return two batches of half the records each, because the broker rejects this one as too large.

        The records keep their sequence numbers, so later batches need not change.
        """
        invariant(self.record_count > 1, "a single record cannot be split")
        rows = self.rows or _read_rows(self._data or b"")
        middle = self.record_count // 2
        return [self._part(rows, index, *bounds) for index, bounds in enumerate([(0, middle), (middle, len(rows))])]

    def _part(self, rows: list[Row], index: int, start: int, stop: int) -> "Batch":
        part = Batch(self.target, self.receipt.part(start, stop), self.created_at_s, (*self.order, index))
        part.rows = rows[start:stop]
        part.record_count = stop - start
        part.size_bytes = HEADER_SIZE + (self.size_bytes - HEADER_SIZE) * part.record_count // self.record_count
        part.is_closed = True
        if self.has_sequence:
            part.stamp = self.stamp._replace(base_sequence=increment_sequence(self.stamp.base_sequence, start))
        return part


def _read_rows(data: bytes | bytearray) -> list[Row]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in read_records(data)]
