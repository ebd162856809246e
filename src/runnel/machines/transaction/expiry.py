"""What time does to transactional ids: transactions that take too long are aborted, idle ids forgotten."""

from runnel.machines.transaction.setting import TransactionSetting
from runnel.machines.transaction.state import IDLE, ONGOING
from runnel.machines.transaction.transaction import Transaction


def is_timed_out(now_ms: int, transaction: Transaction) -> bool:
    """Whether the transaction has been open for too long; one that somebody else decides about never is."""
    return (
        transaction.state is ONGOING
        and not transaction.is_two_phase
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def is_expired(now_ms: int, transaction: Transaction, setting: TransactionSetting) -> bool:
    """Whether nothing is open, and nothing was heard for long enough."""
    return transaction.state in IDLE and transaction.update_ms <= now_ms - setting.expiration_ms
