"""The rate of new connections: of the broker, of each listener, and of each address (KIP-612).

A connection over the rate of its listener or of the broker waits for its turn, unread. If too many wait, or one would
wait for too long, it is closed. A connection over the rate of its address is closed too, after a pause that slows its
client down. Connections that are closed count neither for a rate nor among those that wait, so that a flood of them
does not lock out the others.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tailrace.base.limits import CONNECTION_WAIT_MS_MAX
from tailrace.base.metric import Counter, Registry
from tailrace.base.sentinel import INT32_MAX
from tailrace.base.token_bucket import TokenBucket
from tailrace.config.broker import BrokerConfig
from tailrace.config.listener import Endpoint
from tailrace.config.quota import QuotaOptions, parse_ip_override
from tailrace.machines.authorization.host import canonical_host
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import QuotaTable
from tailrace.machines.quota.usage import QuotaUsage
from tailrace.runtime.broker import Broker
from tailrace.server.quota.live_table import watch_table

_RATE = QuotaOptions.max_connection_creation_rate
_WHOLE_BROKER = ""
_RATE_MIN = 1e-9
"""In place of the rate 0, by which a bucket cannot divide."""


class Verdict(NamedTuple):
    """What happens to a new connection after the delay: it is opened, or closed for a reason."""

    delay_ms: float = 0.0
    refusal: str | None = None


OPEN = Verdict()


class ConnectionRates:
    """Decides about new connections."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._table = QuotaTable()
        self._usage = QuotaUsage()
        self._buckets: dict[str, TokenBucket] = {}
        self._delayed: Counter | None = None
        self._refused: Counter | None = None
        watch_table(broker.metadata, self._on_change)

    def _on_change(self, table: QuotaTable) -> None:
        self._table = table

    def register(self, registry: Registry) -> None:
        """Register the metrics of new connections."""
        self._delayed = registry.counter(
            "tailrace_connection_delayed_count", "New connections that had to wait because of a rate.", ("listener",)
        )
        self._refused = registry.counter(
            "tailrace_connection_rate_refused_count", "New connections closed because of a rate.", ("listener",)
        )

    def is_limited(self, endpoint: Endpoint) -> bool:
        """Whether a rate may apply to a new connection of a listener."""
        return self._table.limits_addresses or any(
            rate < INT32_MAX for rate in self._rates(self._broker.config, endpoint).values()
        )

    def judge(self, endpoint: Endpoint, host: str, waiting_count: int, refused_count: int = 0) -> Verdict:
        """Count a new connection, and return what happens to it.

        Meanwhile `waiting_count` others wait for their turn, and `refused_count` others wait to be closed.
        """
        verdict = self._judge(endpoint, host, waiting_count, refused_count)
        counter = self._delayed if verdict.refusal is None else self._refused
        if counter is not None and verdict is not OPEN:
            counter.add(1, (endpoint.name,))
        return verdict

    def give_back(self, endpoint: Endpoint) -> None:
        """Count one connection less, because it left before its turn."""
        config = self._broker.config
        self._take_all(self._rates(config, endpoint), -1, float(config.quota_window_size_seconds))

    def _judge(self, endpoint: Endpoint, host: str, waiting_count: int, refused_count: int) -> Verdict:
        config = self._broker.config
        now_ms, burst_s = self._broker.clock.monotonic_ms(), float(config.quota_window_size_seconds)
        count_max = config.socket_listen_backlog_size
        limit = self._table.find_connection(host)
        if limit is not None:
            rest_ms = self._usage.take(QuotaKey.CONNECTION, limit, 1, now_ms, burst_s)
            if rest_ms > 0:
                self._usage.take(QuotaKey.CONNECTION, limit, -1, now_ms, burst_s)
                delay_ms = 0.0 if refused_count >= count_max else min(rest_ms, burst_s * 1000)
                return Verdict(delay_ms, f"its address may open {limit.rate:g} connections per second")
        rates = self._rates(config, endpoint)
        delay_ms = self._take_all(rates, 1, burst_s)
        if delay_ms > CONNECTION_WAIT_MS_MAX or (delay_ms > 0 and waiting_count >= count_max):
            self._take_all(rates, -1, burst_s)
            return Verdict(refusal=f"too many connections to {endpoint.name} wait for their turn")
        return Verdict(delay_ms) if delay_ms > 0 else OPEN

    def _take_all(self, rates: Mapping[str, float], count: int, burst_s: float) -> float:
        """Count connections for all rates, and return how long the last of them has to wait."""
        now_ms = self._broker.clock.monotonic_ms()
        limited = [(name, rate) for name, rate in rates.items() if rate < INT32_MAX]
        return max((self._take(name, rate, count, now_ms, burst_s) for name, rate in limited), default=0.0)

    def _take(self, name: str, rate: float, count: int, now_ms: int, burst_s: float) -> float:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(now_ms - burst_s * 1000)
        bucket.pay(now_ms, rate, burst_s * rate)
        bucket.take(count)
        return bucket.rest_ms(rate)

    def _rates(self, config: BrokerConfig, endpoint: Endpoint) -> dict[str, float]:
        """Return the rates of the broker and of the listener. A listener for brokers alone counts only its own."""
        is_for_brokers = len(config.broker_listeners) > 1 and endpoint.name == config.inter_broker_listener.name
        own = config.listener_security(endpoint)
        rates = {} if is_for_brokers else {_WHOLE_BROKER: max(float(config.max_connection_creation_rate), _RATE_MIN)}
        if own.name(_RATE) != _RATE.name:
            rates[endpoint.name] = max(float(own.value(_RATE)), _RATE_MIN)
        return rates


def connections_per_ip(config: BrokerConfig) -> Callable[[str], int]:
    """Return a function that returns the largest number of connections from an address."""
    overrides = _overrides(config.max_connections_per_ip_overrides)
    return lambda host: overrides.get(canonical_host(host), config.max_connections_per_ip)


@lru_cache(maxsize=8)
def _overrides(items: tuple[str, ...]) -> dict[str, int]:
    parsed = (parse_ip_override(item) for item in items)
    return {canonical_host(override[0]): override[1] for override in parsed if override is not None}
