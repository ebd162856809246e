"""Which batches a reader of committed records does not see; the client's tests have the long stories."""

from types import SimpleNamespace

from tests.now import now

from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.transaction_filter import TransactionFilter


def written(producer_id: int, is_transactional: bool = True) -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional)
    builder.append(0, None, b"value")
    return builder.build()


def ended(producer_id: int, outcome: ControlType) -> bytes:
    marker = EndTransactionMarker(outcome, 0)
    return build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0)


def hides(transactions: TransactionFilter, batch: bytes) -> bool:
    return transactions.hides(batch, 0, read_header(batch))


def test_without_aborted_transactions_only_markers_are_hidden() -> None:
    transactions = TransactionFilter()
    assert transactions.is_idle
    assert not hides(transactions, written(1))
    assert hides(transactions, ended(1, ControlType.COMMIT))
    assert hides(transactions, ended(1, ControlType.ABORT))
    assert transactions.is_idle


def test_a_producer_is_skipped_until_its_marker() -> None:
    transactions = TransactionFilter([SimpleNamespace(producer_id=1, first_offset=0)])
    assert not now(transactions.is_idle)
    assert hides(transactions, written(1))
    assert not now(transactions.is_idle)
    assert not hides(transactions, written(2))
    assert not hides(transactions, written(1, is_transactional=False))
    assert hides(transactions, ended(2, ControlType.ABORT))
    assert hides(transactions, written(1))
    assert hides(transactions, ended(1, ControlType.ABORT))
    assert transactions.is_idle
    assert not hides(transactions, written(1))


def test_a_transaction_that_begins_later() -> None:
    transactions = TransactionFilter([SimpleNamespace(producer_id=1, first_offset=5)])
    assert not hides(transactions, written(1))
    assert not transactions.is_idle
