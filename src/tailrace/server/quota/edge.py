"""The edge where requests of clients with quotas are counted.

A request is served at once, and its reply tells the client for how long to pause (KIP-219). The connection is then
neither read nor served for as long, in case the client does not obey; other connections do not notice. As long as no
user and no client id has a quota, `is_active` is false, and requests do not come here.

| quota | counts |
| --- | --- |
| `producer_byte_rate` | the bytes of Produce requests |
| `consumer_byte_rate` | the bytes of Fetch replies; a client over its quota gets a reply without records |
| `request_percentage` | the time for which requests use the event loop; 100 is all of it |
| `controller_mutation_rate` | the partitions that are created and deleted, where the controller handles the request |

Requests of other brokers are exempt.
"""

import time
from collections.abc import Awaitable, Callable
from math import ceil

from tailrace.base.metric import Registry
from tailrace.base.sentinel import INT32_MAX
from tailrace.machines.authorization.vocabulary import CLUSTER_NAME, Operation, Resource
from tailrace.machines.quota.key import QuotaKey
from tailrace.machines.quota.table import QuotaTable
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message
from tailrace.runtime.broker import Broker
from tailrace.server.connection import Buffer
from tailrace.server.context import RequestContext
from tailrace.server.quota.live_table import watch_table
from tailrace.server.quota.metric import ThrottleTimes
from tailrace.server.quota.pause import Pause, Pauses
from tailrace.server.quota.request_quota import QuotaBook, RequestQuota
from tailrace.server.quota.step_timer import StepTimer

Encode = Callable[[Message], list[Buffer]]

EXEMPT = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""APIs of clients that have no principal yet."""

OF_BROKERS = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.ENVELOPE})
"""APIs that brokers use. They count for a client that may not act as a broker, as in Kafka."""


class QuotaEdge:
    """Counts the requests of clients that have a quota, and pauses connections."""

    def __init__(self, broker: Broker, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._broker = broker
        self.clock_ns = clock_ns
        self.is_active = False
        self.times = ThrottleTimes()
        self.pauses = Pauses()
        self._book = QuotaBook()
        watch_table(broker.metadata, self._on_change)

    def register(self, registry: Registry) -> None:
        """Register the metrics of quotas."""
        self.times.register(registry)
        registry.gauge(
            "tailrace_quota_paused_connection_count",
            "Connections that are paused because of a quota.",
            lambda: [((), len(self.pauses.running))],
        )

    def _on_change(self, table: QuotaTable) -> None:
        config = self._broker.config
        self._book.table = table
        self._book.burst_s = config.quota_window_size_seconds
        self._book.mutation_burst_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self.is_active = table.limits_clients
        self.pauses.reconsider()

    async def serve(
        self,
        context: RequestContext,
        request: Message,
        frame_bytes: int,
        began_ns: int,
        answer: Awaitable[Message | None],
        encode: Encode,
    ) -> list[Buffer] | None:
        """Serve a request, which was decoded since `began_ns`, and return its encoded reply."""
        quota = context.quota = self._quota(context, request)
        decoded_ns = self.clock_ns() - began_ns
        timer = StepTimer(answer, self.clock_ns)
        response = await timer
        if quota is None or context.quota is None:  # the handler may exempt it
            return None if response is None else encode(response)
        now_ms = self._broker.clock.monotonic_ms()
        if context.header.api_key == ApiKey.PRODUCE:
            quota.take(QuotaKey.PRODUCE, frame_bytes, now_ms)
        quota.take_time(decoded_ns + timer.used_ns, now_ms)
        began_ns = self.clock_ns()
        reply = self._reply(context, quota, response, encode)
        quota.take_time(self.clock_ns() - began_ns, now_ms)  # for the next request: the reply is encoded
        return reply

    def _quota(self, context: RequestContext, request: Message) -> RequestQuota | None:
        """Return the quotas of a client; None for a broker."""
        header = context.header
        if header.api_key in EXEMPT:
            return None
        seems_broker = header.api_key in OF_BROKERS or getattr(request, "replica_id", -1) >= 0
        if seems_broker and context.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, is_probe=True):
            return None
        return self.quota_of(context)

    def quota_of(self, context: RequestContext) -> RequestQuota:
        """Return the quotas of the client that made a request, whichever broker it was sent to."""
        user, client_id = context.principal.partition(":")[2], context.header.client_id or ""
        return RequestQuota(self._book, user, client_id, self._broker.clock.monotonic_ms())

    def _reply(
        self, context: RequestContext, quota: RequestQuota, response: Message | None, encode: Encode
    ) -> list[Buffer] | None:
        """Encode the reply with its throttle time, and pause the connection if there is one."""
        reply = None if response is None else encode(response)
        if reply is not None and context.header.api_key == ApiKey.FETCH:
            quota.take(QuotaKey.FETCH, sum(map(len, reply)), self._broker.clock.monotonic_ms())
        # The controller has set its own throttle time, if it served a request that was forwarded to it.
        throttle_ms = max(min(ceil(quota.throttle_ms), INT32_MAX), getattr(response, "throttle_time_ms", 0))
        if throttle_ms == 0:
            return reply
        self._pause(context, quota, throttle_ms)
        if response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
            reply = encode(response)
        return reply

    def _pause(self, context: RequestContext, quota: RequestQuota, throttle_ms: int) -> None:
        key = quota.key

        def rest_ms_now() -> float:
            return throttle_ms if key is None else quota.rest_ms(key, self._broker.clock.monotonic_ms())

        context.connection.pause(Pause(self.pauses, throttle_ms, rest_ms_now))
        if key is not None and (limit := quota.limit(key)) is not None:
            self.times.add(key, limit.identity, throttle_ms)
