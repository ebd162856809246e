"""What users are told when a transaction fails or its producer is of no further use."""

from dataclasses import dataclass

from runnel.client.error import ClientError, CommitFailed, ProducerFenced, TransactionFailed
from runnel.client.transaction_state import Verdict
from runnel.protocol.errors import ApiError, ErrorCode

_NOT_IN_GROUP = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The words for one transactional id; without a time-out none of its transactions takes too long."""

    transactional_id: str
    timeout_ms: int | None

    def find(self, verdict: Verdict, error: Exception, what: str, open_ms: float) -> Exception:
        """What to raise for an error, which is its cause."""
        reason = self._find(verdict, error, what, open_ms)
        reason.__cause__ = error
        return reason

    def _find(self, verdict: Verdict, error: Exception, what: str, open_ms: float) -> Exception:
        code = error.code if isinstance(error, ApiError) else None
        if verdict is Verdict.FENCED:
            return ProducerFenced(self._fencing(open_ms))
        if verdict is Verdict.BREAK:
            return ClientError(f"the producer cannot go on: {what}: {error}; close it and make another")
        if code in _NOT_IN_GROUP:
            return CommitFailed(f"the group has gone on without this consumer: {error}; abort the transaction")
        if code is ErrorCode.INVALID_TXN_STATE:
            limit = "" if self.timeout_ms is None else f", as after transaction_timeout_ms ({self.timeout_ms})"
            return TransactionFailed(f"the coordinator does not have the transaction open any more{limit}: {error}")
        return TransactionFailed(f"the transaction has to be aborted: {what}: {error}")

    def _fencing(self, open_ms: float) -> str:
        causes = [f"another producer has taken the transactional id {self.transactional_id}"]
        if self.timeout_ms is not None:
            causes.append(f"the transaction was open for longer than transaction_timeout_ms ({self.timeout_ms})")
            if open_ms >= self.timeout_ms:
                causes.reverse()
        return f"{', or '.join(causes)}; nothing of this transaction counts. Close this producer and make a new one"
