"""What may begin a transaction in a partition, and what ends it."""

import pytest
from tests.unit.runtime.test_partition import Bench
from tests.unit.sample import NOW_MS, make_batch

from tailrace.base.sentinel import ACKS_ALL
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, read_header
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.transaction.guard import NO_GUARD, TransactionGuard

PRODUCER = 7


class Transactions(Bench):
    """A partition to which one producer writes in transactions."""

    def begin(self, sequence: int = 0, epoch: int = 0, *, is_adding: bool = False) -> TransactionGuard | None:
        return self.partition.begin_transaction(_header(sequence, epoch), is_adding=is_adding, now_ms=NOW_MS)

    def write(self, guard: TransactionGuard | None, sequence: int = 0, epoch: int = 0) -> int:
        batch = memoryview(_batch(sequence, epoch))
        return self.partition.append(batch, read_header(batch), ACKS_ALL, NOW_MS, guard).base_offset

    def end(
        self, epoch: int = 0, *, coordinator_epoch: int = 0, version: int = 0, is_commit: bool = True, producer: int = 7
    ) -> int:
        marker = TransactionMarker(producer, epoch, coordinator_epoch, version, is_commit)
        return self.partition.append_marker(marker, NOW_MS)

    def refused_write(self, guard: TransactionGuard | None, sequence: int = 0, epoch: int = 0) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.write(guard, sequence, epoch)
        return caught.value.code

    def refused_end(self, epoch: int = 0, *, coordinator_epoch: int = 0, version: int = 0) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.end(epoch, coordinator_epoch=coordinator_epoch, version=version)
        return caught.value.code


def _batch(sequence: int, epoch: int) -> bytearray:
    return make_batch(producer=(PRODUCER, epoch, sequence), is_transactional=True)


def _header(sequence: int, epoch: int) -> BatchHeader:
    return read_header(_batch(sequence, epoch))


def test_only_the_first_batch_of_a_transaction_needs_a_guard() -> None:
    bench = Transactions()
    assert bench.refused_write(None) is ErrorCode.INVALID_TXN_STATE
    guard = bench.begin()
    assert guard is not None
    assert bench.write(guard) == 0
    assert bench.begin(sequence=1) is None
    assert bench.write(None, sequence=1) == 1
    assert bench.partition.last_stable_offset == 0
    assert bench.end() == 3
    assert bench.partition.last_stable_offset == 3


def test_kip_890_a_batch_that_comes_after_the_marker_is_refused() -> None:
    """The transaction was aborted while its coordinator was asked: the answer is about what is over."""
    bench = Transactions()
    late = bench.begin()
    bench.end(is_commit=False)
    assert bench.refused_write(late) is ErrorCode.INVALID_TXN_STATE
    later = bench.begin()
    assert later is not late
    assert bench.refused_write(late) is ErrorCode.INVALID_TXN_STATE
    assert bench.write(later) == 1


def test_a_repeated_batch_is_known_after_the_end_of_its_transaction() -> None:
    bench = Transactions()
    bench.write(bench.begin())
    bench.end()
    assert bench.write(None) == 0
    assert bench.refused_write(None, sequence=1) is ErrorCode.INVALID_TXN_STATE


def test_the_marker_of_a_transaction_leaves_the_guard_of_the_next() -> None:
    """Since KIP-890 the end has the next transaction's epoch, whose first batch may already be on its way."""
    bench = Transactions()
    bench.write(bench.begin(is_adding=True))
    guard = bench.begin(epoch=1, is_adding=True)
    bench.end(epoch=1, version=2)
    assert bench.write(guard, epoch=1) == 2


def test_a_later_batch_does_not_overtake_the_first() -> None:
    bench = Transactions()
    guard = bench.begin(sequence=0)
    assert bench.begin(sequence=1) is guard
    assert bench.refused_write(guard, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.write(guard, sequence=0) == 0


def test_a_producer_whose_partitions_are_added_begins_at_zero() -> None:
    bench = Transactions()
    assert bench.write(bench.begin(sequence=5), sequence=5) == 0
    other = Transactions()
    guard = other.begin(sequence=5, is_adding=True)
    assert other.refused_write(guard, sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_refused_before_anybody_is_asked() -> None:
    bench = Transactions()
    bench.write(bench.begin(epoch=3), epoch=3)
    with pytest.raises(ApiError) as caught:
        bench.begin(epoch=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.refused_write(None, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_guards_end_with_leadership_and_with_time() -> None:
    bench = Transactions()
    bench.begin()
    bench.partition.guards.expire(NOW_MS)
    assert len(bench.partition.guards) == 1
    bench.partition.guards.expire(NOW_MS + 1)
    assert len(bench.partition.guards) == 0


def test_without_verification_nothing_is_asked() -> None:
    bench = Transactions()
    assert bench.write(NO_GUARD) == 0


def test_a_marker_of_an_older_producer_or_coordinator_is_refused() -> None:
    bench = Transactions()
    bench.write(bench.begin(epoch=3), epoch=3)
    assert bench.refused_end(epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    bench.end(epoch=3, coordinator_epoch=5)
    assert bench.refused_end(epoch=3, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert bench.end(epoch=4, coordinator_epoch=5, is_commit=False) == 3


def test_a_marker_with_an_epoch_of_its_own_ends_no_newer_transaction() -> None:
    bench = Transactions()
    bench.write(bench.begin(), epoch=0)
    assert bench.end(epoch=1, version=2) == 2
    assert bench.end(epoch=1, version=2) == 3  # repeated, because nobody heard of it
    bench.write(bench.begin(epoch=1), epoch=1)
    assert bench.refused_end(epoch=1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.end(epoch=1, version=0) == 5  # an administrator aborts it under its own epoch


def test_a_marker_waits_for_enough_replicas() -> None:
    bench = Transactions(min_insync_replicas="2")
    bench.lead(0, isr=(1,), replicas=(1, 2))
    assert bench.refused_end() is ErrorCode.NOT_ENOUGH_REPLICAS
    bench.partition.retire()
    assert bench.refused_end() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
