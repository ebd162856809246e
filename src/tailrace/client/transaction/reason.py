"""The errors that users get when a transaction or its producer fails."""

from dataclasses import dataclass

from tailrace.client.error import ClientError, CommitFailed, ProducerFenced, TransactionFailed
from tailrace.client.transaction.state import Verdict
from tailrace.protocol.errors import ApiError, ErrorCode

_NOT_IN_GROUP = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


_NOT_COMMITTED = "the transaction is not committed"


@dataclass(frozen=True, slots=True)
class Reasons:
    """The error messages of one transactional id; without a timeout none of its transactions expires."""

    transactional_id: str
    timeout_ms: int | None

    def find(
        self, verdict: Verdict, error: Exception, what: str, open_ms: float, *, may_be_committed: bool = False
    ) -> Exception:
        """Return the error to raise, with the original as its cause."""
        outcome = "it is unknown whether the transaction was committed" if may_be_committed else _NOT_COMMITTED
        reason = self._find(verdict, error, what, open_ms, outcome)
        reason.__cause__ = error
        return reason

    def _find(self, verdict: Verdict, error: Exception, what: str, open_ms: float, outcome: str) -> Exception:
        code = error.code if isinstance(error, ApiError) else None
        if verdict is Verdict.FENCED:
            return ProducerFenced(f"{self._fencing(open_ms)}; {outcome}. Close this producer and create a new one")
        if verdict is Verdict.BREAK:
            return ClientError(f"the producer failed: {what}: {error}; close it and create a new one")
        if code in _NOT_IN_GROUP:
            return CommitFailed(f"the group has excluded this consumer: {error}; abort the transaction")
        if code is ErrorCode.INVALID_TXN_STATE:
            limit = "" if self.timeout_ms is None else f", for example after transaction_timeout_ms ({self.timeout_ms})"
            return TransactionFailed(f"the transaction is no longer open at its coordinator{limit}: {error}")
        return TransactionFailed(f"the transaction must be aborted: {what}: {error}")

    def _fencing(self, open_ms: float) -> str:
        causes = [f"another producer has taken the transactional id {self.transactional_id}"]
        if self.timeout_ms is not None:
            causes.append(f"the transaction was open for longer than transaction_timeout_ms ({self.timeout_ms})")
            if open_ms >= self.timeout_ms:
                causes.reverse()
        return ", or ".join(causes)
