"""The quotas of the client that sent one request."""

from tailrace.base.sentinel import INT32_MAX
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import Limit, QuotaTable
from tailrace.machines.quota.usage import QuotaUsage
from tailrace.protocol.errors import ApiError, ErrorCode

NS_TO_PERCENT = 100 / 1e9


class QuotaBook:
    """What applies to all clients of a broker: the quotas, their use, and the time for which a client may save up."""

    def __init__(self) -> None:
        self.table = QuotaTable()
        self.usage = QuotaUsage()
        self.burst_s = 1.0
        self.mutation_burst_s = 11.0

    def burst_of(self, key: QuotaKey) -> float:
        return self.mutation_burst_s if key is QuotaKey.MUTATION else self.burst_s


class RequestQuota:
    """Counts what one request uses, and knows the longest pause that follows from it."""

    __slots__ = ("_book", "_client_id", "_now_ms", "_user", "key", "throttle_ms")

    def __init__(self, book: QuotaBook, user: str, client_id: str, now_ms: int) -> None:
        self._book = book
        self._user = user
        self._client_id = client_id
        self._now_ms = now_ms
        self.throttle_ms = 0.0
        self.key: QuotaKey | None = None
        """The quota that asks for the longest pause."""

    def limit(self, key: QuotaKey) -> Limit | None:
        """Return the quota that applies; None if there is none."""
        return self._book.table.find(key, self._user, self._client_id)

    def rest_ms(self, key: QuotaKey, now_ms: int) -> float:
        """Return for how long the client has to pause now because of a quota."""
        limit = self.limit(key)
        return 0.0 if limit is None else self._book.usage.rest_ms(key, limit, now_ms, self._book.burst_of(key))

    # --- fetch

    def must_wait_for_fetch(self) -> bool:
        """Whether the client has fetched more than its quota, so that it gets no records now."""
        rest_ms = self.rest_ms(QuotaKey.FETCH, self._now_ms)
        self._demand(QuotaKey.FETCH, rest_ms)
        return rest_ms > 0

    def fetch_bytes_max(self) -> int:
        """Return how many bytes the client may fetch without a pause, at least one; one batch is always returned."""
        limit = self.limit(QuotaKey.FETCH)
        if limit is None:
            return INT32_MAX
        room = self._book.usage.room(QuotaKey.FETCH, limit, self._now_ms, self._book.burst_s)
        return max(1, int(min(room, INT32_MAX)))

    # --- use

    def take(self, key: QuotaKey, amount: float, now_ms: int) -> None:
        """Count what the request used."""
        limit = self.limit(key)
        if limit is not None:
            rest_ms = self._book.usage.take(key, limit, amount, now_ms, self._book.burst_of(key))
            # Kafka bounds this pause: the time of a request is known only afterwards, and may be long by chance.
            self._demand(key, min(rest_ms, self._book.burst_s * 1000) if key is QuotaKey.REQUEST else rest_ms)

    def take_time(self, used_ns: int, now_ms: int) -> None:
        """Count for how long the request has used the event loop."""
        self.take(QuotaKey.REQUEST, used_ns * NS_TO_PERCENT, now_ms)

    def take_mutations(self, count: int, *, is_strict: bool) -> None:
        """Count partitions that the request creates or deletes (KIP-599).

        If it is strict, raise `ApiError` when the quota has been used up before. Old clients do not know the error;
        they have to pause afterwards.
        """
        limit = self.limit(QuotaKey.MUTATION)
        if limit is None:
            return
        usage, burst_s = self._book.usage, self._book.mutation_burst_s
        if not is_strict:
            self._demand(QuotaKey.MUTATION, usage.take(QuotaKey.MUTATION, limit, count, self._now_ms, burst_s))
            return
        rest_ms = usage.rest_ms(QuotaKey.MUTATION, limit, self._now_ms, burst_s)
        if rest_ms > 0:
            self._demand(QuotaKey.MUTATION, rest_ms)
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        usage.take(QuotaKey.MUTATION, limit, count, self._now_ms, burst_s)

    def _demand(self, key: QuotaKey, throttle_ms: float) -> None:
        if throttle_ms > self.throttle_ms:
            self.key, self.throttle_ms = key, throttle_ms
