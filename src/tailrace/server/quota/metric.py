"""Metrics of quotas: how long clients were told to pause."""

from collections import OrderedDict

from tailrace.base.limits import QUOTA_METRIC_LABELS_MAX
from tailrace.base.metric import Reading, Registry
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import Identity

_SHOWN = {
    QuotaKey.PRODUCE: "produce",
    QuotaKey.FETCH: "fetch",
    QuotaKey.REQUEST: "request",
    QuotaKey.MUTATION: "controller_mutation",
}


class ThrottleTimes:
    """The pauses of clients since the broker started, by quota and identity; the latest ones, if there are too many."""

    def __init__(self) -> None:
        self._total_ms: OrderedDict[tuple[QuotaKey, Identity], float] = OrderedDict()

    def add(self, key: QuotaKey, identity: Identity, throttle_ms: float) -> None:
        """Count the pause of a client."""
        place = key, identity
        self._total_ms[place] = self._total_ms.get(place, 0.0) + throttle_ms
        self._total_ms.move_to_end(place)
        if len(self._total_ms) > QUOTA_METRIC_LABELS_MAX:
            self._total_ms.popitem(last=False)

    def read(self) -> Reading:
        """Return the times, each with its quota, user and client id."""
        return [
            ((_SHOWN[key], identity.user or "", identity.client_id or ""), total_ms)
            for (key, identity), total_ms in self._total_ms.items()
        ]

    def register(self, registry: Registry) -> None:
        registry.gauge(
            "tailrace_quota_throttle_time_ms",
            "Time for which clients had to pause because of a quota since the broker started.",
            self.read,
            ("quota", "user", "client_id"),
        )
