"""The expiration of transactional ids and the timeout of transactions."""

from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import IDLE, ONGOING
from tailrace.machines.transaction.transaction import Transaction


def is_timed_out(now_ms: int, transaction: Transaction) -> bool:
    """Return whether the transaction exceeds its timeout. A two-phase transaction has none."""
    return (
        transaction.state is ONGOING
        and not transaction.is_two_phase
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def is_expired(now_ms: int, transaction: Transaction, setting: TransactionSetting) -> bool:
    """Return whether the id is idle and was not used for the expiration time."""
    return transaction.state in IDLE and transaction.update_ms <= now_ms - setting.expiration_ms
