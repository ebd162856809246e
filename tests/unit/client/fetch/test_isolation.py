"""What a reader of committed records may see."""

import pytest

from tailrace.client.fetch.isolation import visible_batches
from tailrace.protocol.messages.fetch import FetchResponseAbortedTransaction
from tailrace.records.batch import assign_offsets
from tailrace.records.builder import BatchBuilder
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_records


class Log:
    """Batches one after the other, with their offsets."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._next_offset = 0

    def write(self, *values: bytes, producer_id: int = -1) -> "Log":
        is_transactional = producer_id >= 0
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0 if is_transactional else -1, is_transactional=is_transactional
        )
        for value in values:
            builder.append(1000, None, value)
        return self._add(builder.build(), len(values))

    def end(self, producer_id: int, outcome: ControlType) -> "Log":
        marker = EndTransactionMarker(outcome, 0)
        batch = build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1000)
        return self._add(batch, 1)

    def _add(self, batch: bytes, count: int) -> "Log":
        position = len(self.data)
        self.data += batch
        assign_offsets(self.data, position, self._next_offset, 0)
        self._next_offset += count
        return self


def visible(log: Log, *aborted: tuple[int, int]) -> list[bytes | None]:
    transactions = [FetchResponseAbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted]
    batches = visible_batches(log.data, transactions)
    return [record.value for position, _ in batches for record in read_records(log.data, position)]


def test_markers_are_never_shown() -> None:
    log = Log().write(b"a", producer_id=7).end(7, ControlType.COMMIT).write(b"b")
    assert visible(log) == [b"a", b"b"]


def test_an_aborted_transaction_is_skipped_up_to_its_marker() -> None:
    log = (
        Log()
        .write(b"committed", producer_id=7)
        .end(7, ControlType.COMMIT)
        .write(b"aborted", b"too", producer_id=7)
        .write(b"plain")
        .write(b"other", producer_id=8)
        .write(b"still", producer_id=7)
        .end(7, ControlType.ABORT)
        .write(b"next", producer_id=7)
    )
    assert visible(log, (7, 2)) == [b"committed", b"plain", b"other", b"next"]


def test_a_producer_may_abort_twice_and_another_meanwhile() -> None:
    log = (
        Log()
        .write(b"1", producer_id=7)
        .write(b"2", producer_id=8)
        .end(7, ControlType.ABORT)
        .write(b"3", producer_id=7)
        .end(8, ControlType.ABORT)
        .end(7, ControlType.ABORT)
        .write(b"4", producer_id=8)
    )
    assert visible(log, (7, 3), (8, 1), (7, 0)) == [b"4"]


def test_a_reader_of_everything_gets_no_list_and_sees_all() -> None:
    log = Log().write(b"aborted", producer_id=7).end(7, ControlType.ABORT)
    assert visible(log) == [b"aborted"]


def test_damage_is_noticed() -> None:
    log = Log().write(b"value")
    log.data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        visible(log)
