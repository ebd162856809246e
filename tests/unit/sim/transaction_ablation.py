"""Safeguards of transactions, each taken away by a patch, so that the simulator can show that it is needed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.machines.group.offset.coordinator import OffsetCoordinator
from tailrace.machines.transaction import end, init
from tailrace.machines.transaction.coordinator import TransactionCoordinator
from tailrace.machines.transaction.decision import TransactionDecision
from tailrace.machines.transaction.state import ONGOING, PREPARED
from tailrace.machines.transaction.transaction import Identity, Transaction
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import NO_PRODUCER_ID
from tailrace.runtime.partition import Partition
from tailrace.runtime.transaction.guard import NO_GUARD, TransactionGuard, TransactionGuards


@contextmanager
def no_check_of_the_end() -> Iterator[None]:
    """EndTxn ends what is open, whoever asks for it and of whichever transaction."""

    def check(transaction: Transaction, _identity: Identity, *, is_commit: bool) -> bool:
        if transaction.state in PREPARED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction.state is not ONGOING

    with patch.object(end, "_check_first_generation", check), patch.object(end, "_check_second_generation", check):
        yield


@contextmanager
def no_verification() -> Iterator[None]:
    """A partition takes the first batch of a transaction from old producers, and asks nobody, as before KIP-890."""
    begin, check = TransactionGuards.begin, TransactionGuards.check

    def begin_old(guards: TransactionGuards, entry: Any, batch: Any, **options: Any) -> TransactionGuard | None:
        return begin(guards, entry, batch, **options) if options["is_adding"] else None

    def check_old(guards: TransactionGuards, entry: Any, header: Any, guard: TransactionGuard | None) -> None:
        check(guards, entry, header, guard or NO_GUARD)

    with patch.object(TransactionGuards, "begin", begin_old), patch.object(TransactionGuards, "check", check_old):
        yield


@contextmanager
def markers_are_forgotten() -> Iterator[None]:
    """A coordinator that takes over does not carry out what was decided before it."""
    on_loaded = TransactionCoordinator.on_loaded

    def forget(coordinator: TransactionCoordinator, now_ms: int) -> TransactionDecision:
        decision = on_loaded(coordinator, now_ms)
        decision.ending.clear()
        return decision

    with patch.object(TransactionCoordinator, "on_loaded", forget):
        yield


@contextmanager
def no_last_stable_offset() -> Iterator[None]:
    """Who reads what is committed gets what is not yet decided, too."""
    with patch.object(Partition, "last_stable_offset", property(lambda partition: partition.high_watermark)):
        yield


@contextmanager
def offsets_count_at_once() -> Iterator[None]:
    """Offsets of a transaction count before it is committed."""
    replay = OffsetCoordinator.replay

    def apply(offsets: OffsetCoordinator, record: Any, offset: int, _producer_id: int) -> bool:
        return replay(offsets, record, offset, NO_PRODUCER_ID)

    with patch.object(OffsetCoordinator, "replay", apply):
        yield


@contextmanager
def no_fencing() -> Iterator[None]:
    """A new producer gets the identity of the one before it."""
    with patch.object(init, "next_identity", lambda identity, _take_producer_id: identity):
        yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no check of the end": no_check_of_the_end,
    "no verification": no_verification,
    "markers are forgotten": markers_are_forgotten,
    "no last stable offset": no_last_stable_offset,
    "offsets count at once": offsets_count_at_once,
    "no fencing": no_fencing,
}

FOUND = {
    "no check of the end": {"commit-after-fencing", "late-end", "torn-transaction"},
    "no verification": {"hanging-transaction", "aborted-read", "late-end"},
    "markers are forgotten": {"hanging-transaction", "torn-transaction"},
    "no last stable offset": {"intermediate-read", "aborted-read", "precommitted-read"},
    "offsets count at once": {"intermediate-read", "aborted-read", "missed"},
    "no fencing": {"commit-after-fencing", "write-after-fencing"},
}
"""What a simulation without the safeguard finds, among others."""
