"""How much of their quotas clients have used: a token bucket for each quota and each group of clients that shares it.

The number of buckets is bounded, because a client may invent client ids. The buckets that were not used for longest
are dropped. A dropped bucket forgives a debt, which is no more than a client gets that takes another id.
"""

from collections import OrderedDict

from tailrace.base.limits import QUOTA_BUCKET_IDLE_MS, QUOTA_BUCKETS_MAX
from tailrace.base.token_bucket import TokenBucket
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import Identity, Limit

Place = tuple[QuotaKey, Identity]


class QuotaUsage:
    """The buckets of all clients that have a quota.

    `burst_s` is the time for which an idle client may save up what it did not use.
    """

    def __init__(self, count_max: int = QUOTA_BUCKETS_MAX) -> None:
        self._count_max = count_max
        self._buckets: OrderedDict[Place, TokenBucket] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: QuotaKey, limit: Limit, amount: float, now_ms: int, burst_s: float) -> float:
        """Count what a client has used, and return for how many milliseconds it has to pause."""
        bucket = self._paid(key, limit, now_ms, burst_s)
        bucket.take(amount)
        return bucket.rest_ms(limit.rate)

    def rest_ms(self, key: QuotaKey, limit: Limit, now_ms: int, burst_s: float) -> float:
        """Return for how many milliseconds a client has to pause."""
        return self._paid(key, limit, now_ms, burst_s).rest_ms(limit.rate)

    def room(self, key: QuotaKey, limit: Limit, now_ms: int, burst_s: float) -> float:
        """Return how much a client may use without a pause."""
        return max(0.0, -self._paid(key, limit, now_ms, burst_s).debt)

    def _paid(self, key: QuotaKey, limit: Limit, now_ms: int, burst_s: float) -> TokenBucket:
        place = key, limit.identity
        bucket = self._buckets.get(place)
        if bucket is None:
            self._make_room(now_ms)
            bucket = self._buckets[place] = TokenBucket(now_ms - burst_s * 1000)
        else:
            self._buckets.move_to_end(place)
        bucket.pay(now_ms, limit.rate, burst_s * limit.rate)
        return bucket

    def _make_room(self, now_ms: int) -> None:
        """Drop the buckets that were not used for long, and at least one if there are too many."""
        while self._buckets:
            oldest = next(iter(self._buckets.values()))
            if len(self._buckets) < self._count_max and now_ms - oldest.paid_at_ms < QUOTA_BUCKET_IDLE_MS:
                return
            self._buckets.popitem(last=False)
