"""The listeners of a broker, and the closing of connections that are idle, stalled or too many."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Collection
from functools import partial

from tailrace.base.limits import (
    CONNECTION_LINES_MAX,
    CONNECTION_SWEEP_INTERVAL_S,
    RECEIVE_SCRATCH_BYTES,
    REPLY_BACKLOG_BYTES_MAX,
)
from tailrace.config.broker import BrokerConfig
from tailrace.config.listener import Endpoint
from tailrace.config.listener_security import ListenerSecurity
from tailrace.runtime.broker import Broker
from tailrace.security.exchange import Identity
from tailrace.server.bounded_log import BoundedLog
from tailrace.server.budget import Backlog, Budget
from tailrace.server.connection import Connection, Serve, SocketSizes
from tailrace.server.frame_reader import FrameReader
from tailrace.server.quota.connection_rate import ConnectionRates, connections_per_ip
from tailrace.server.quota.gate import Gate, Waiting
from tailrace.server.security.door import TlsDoor
from tailrace.server.security.failure_log import FailureLog
from tailrace.server.security.guards import Guards

log = logging.getLogger("tailrace.server")


class Listeners:
    """The open listeners of a broker, and their connections."""

    def __init__(self, broker: Broker, serve: Serve) -> None:
        self._broker = broker
        self._serve = serve
        self.budget = Budget(_or_unlimited(broker.config.queued_max_request_bytes))
        self.backlog = Backlog(REPLY_BACKLOG_BYTES_MAX)
        self.connections: dict[Connection, None] = {}  # in the order in which they were accepted
        self._count_by_host: Counter[str] = Counter()
        self._count_by_listener: Counter[str] = Counter()
        self._scratch = memoryview(bytearray(RECEIVE_SCRATCH_BYTES))
        self.guards = Guards(broker)
        self.waiting = Waiting(ConnectionRates(broker), self._refusal)
        self._servers: list[asyncio.Server] = []
        self.failures = FailureLog(broker.clock)
        self._warnings = BoundedLog(
            lambda count: f"{count} more lines about connections are not logged", CONNECTION_LINES_MAX
        )
        self._is_closed = False

    @property
    def _config(self) -> BrokerConfig:
        return self._broker.config  # dynamic configs change while the broker runs

    async def open(self, endpoint: Endpoint) -> int:
        """Listen on `endpoint`, and return the port; port 0 means any. Raise `ConfigError` if it cannot be guarded."""
        self.guards.open(endpoint)
        server = await self._listen(endpoint, endpoint.port)
        ports: list[int] = [opened.getsockname()[1] for opened in server.sockets]
        if len(set(ports)) > 1:
            # For any port on every interface, the system gives each address family a different one.
            server.close()
            await server.wait_closed()
            server = await self._listen(endpoint, ports[0])
        self._servers.append(server)
        return ports[0]

    async def _listen(self, endpoint: Endpoint, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            partial(self._accept, endpoint),
            endpoint.host or None,
            port,
            backlog=self._config.socket_listen_backlog_size,
        )

    async def sweep_forever(self) -> None:
        """Close idle and stalled connections at regular intervals."""
        while True:
            await asyncio.sleep(CONNECTION_SWEEP_INTERVAL_S)
            try:
                self.sweep(asyncio.get_running_loop().time())
            except Exception:
                log.exception("closing idle connections failed")

    def sweep(self, now: float) -> None:
        """Close every connection that has been idle or stalled for too long at time `now`."""
        idle_s = _or_unlimited(self._config.connections_max_idle_ms) / 1000
        stall_s = self._config.tailrace_request_read_timeout_ms / 1000
        for connection in tuple(self.connections):
            login_s = self.guards[connection.listener_name].limits.timeout_s
            connection.let_go_if_overdue(now, idle_s, stall_s, login_s)
        self.waiting.let_go()

    async def close(self) -> None:
        """Stop accepting, and close every connection."""
        self._is_closed = True
        await self.guards.close()
        await self._stop_accepting()
        for server in self._servers:
            server.close()
        self.waiting.close()
        await asyncio.gather(*[connection.end() for connection in tuple(self.connections)], return_exceptions=True)

    async def _stop_accepting(self) -> None:
        """Finish accepting pending connections: asyncio loses those of a server that is closed."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for server in self._servers:
                for listening in server.sockets:
                    loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)

    def _accept(self, endpoint: Endpoint) -> asyncio.BaseProtocol:
        protocol = self._protocol(endpoint)
        return Gate(self.waiting, endpoint, protocol) if self.waiting.rates.is_limited(endpoint) else protocol

    def _protocol(self, endpoint: Endpoint) -> asyncio.BaseProtocol:
        config, guard = self._config, self.guards[endpoint.name]
        reader = FrameReader(config.socket_request_max_bytes, self._scratch)
        sizes = SocketSizes(config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes)
        connection = Connection(self._serve, reader, self.budget, self.backlog, endpoint.name, sizes, self)
        connection.security_protocol = endpoint.security_protocol
        if guard.has_login:
            connection.session = self.guards.session(
                endpoint.name, partial(self._logged_in, connection), partial(self.failures.login, connection)
            )
            reader.size_bytes_max = min(guard.limits.request_bytes_max, config.socket_request_max_bytes)
        if guard.tls is None:
            return connection
        return TlsDoor(connection, guard, self.failures)

    def _logged_in(self, connection: Connection, identity: Identity) -> None:
        connection.log_in(
            f"User:{identity.name}",
            is_token=identity.is_token,
            request_bytes_max=self._config.socket_request_max_bytes,
        )

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection, or return why it must be closed."""
        if refusal := self._refusal(connection.listener_name, connection.host):
            return refusal
        count_max = self._count_max
        own_max = self._listener_options(connection.listener_name).value(BrokerConfig.max_connections)
        if own_max < count_max and self._count_by_listener[connection.listener_name] >= own_max:
            rivals = [other for other in self.connections if other.listener_name == connection.listener_name]
            self._drop_idlest(rivals, f"{own_max} connections of {connection.listener_name}")
        if len(self.connections) >= count_max:
            self._drop_idlest(self._replaceable(), f"{count_max} connections")
        self.connections[connection] = None
        self._count_by_host[connection.host] += 1
        self._count_by_listener[connection.listener_name] += 1
        return None

    def _refusal(self, listener_name: str, host: str, waiting_count: int = 0) -> str | None:
        """Return why a new connection must be closed while so many others from its host wait for their turn."""
        if self._is_closed:
            return "the broker stops"  # it was accepted before the listener closed
        per_address_max = connections_per_ip(self._config)(host)
        if self._count_by_host[host] + waiting_count >= per_address_max:
            return f"there are {per_address_max} connections from its address already"
        if self._count_max == 0:
            return "max.connections is 0"
        own = self._listener_options(listener_name)
        if own.value(BrokerConfig.max_connections) == 0:
            return f"{own.name(BrokerConfig.max_connections)} is 0"
        return None

    @property
    def _count_max(self) -> int:
        return min(self._config.max_connections, self._broker.connection_count_max)

    def _listener_options(self, listener_name: str) -> ListenerSecurity:
        return self._config.listener_security(self.guards[listener_name].endpoint)

    def _replaceable(self) -> Collection[Connection]:
        """Return the connections of which one goes when there are too many; other brokers' only if there are no others.

        They can be told apart if the brokers have a listener of their own.
        """
        for_brokers = self._config.inter_broker_listener.name
        return [other for other in self.connections if other.listener_name != for_brokers] or self.connections

    def _drop_idlest(self, rivals: Collection[Connection], crowd: str) -> None:
        """Drop one connection: of a client that has not logged in if there is one, and the idlest of those."""
        idlest = min(rivals, key=lambda other: (other.has_logged_in, not other.is_idle, other.active_at))
        self.forget(idlest)
        idlest.abort(f"it was the idlest of {crowd}")

    def warn(self, text: str, *arguments: object) -> None:
        """Log a warning about a connection; clients can cause only so many."""
        self._warnings.warn(self._broker.clock.now_ms(), text, *arguments)

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection, if it was counted."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._count_by_listener[connection.listener_name] -= 1
        self._count_by_host[connection.host] -= 1
        if not self._count_by_host[connection.host]:
            del self._count_by_host[connection.host]


def _or_unlimited(limit: int) -> int:
    """Return the limit; a negative one means no limit, as in Kafka."""
    return limit if limit >= 0 else sys.maxsize
