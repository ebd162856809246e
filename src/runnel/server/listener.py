"""Accepting connections, and letting go of those that idle, stall or are too many."""

import asyncio
import logging
import sys
from collections import Counter

from runnel.base.limits import (
    CONNECTION_SWEEP_INTERVAL_S,
    RECEIVE_SCRATCH_BYTES,
    REPLY_BACKLOG_BYTES_MAX,
)
from runnel.config.broker import BrokerConfig
from runnel.config.listener import Endpoint
from runnel.runtime.broker import Broker
from runnel.server.budget import Backlog, Budget
from runnel.server.connection import Connection, Serve, SocketSizes
from runnel.server.frame_reader import FrameReader

log = logging.getLogger("runnel.server")


class Listeners:
    """Every address that a broker listens on, and the connections they accepted."""

    def __init__(self, broker: Broker, serve: Serve) -> None:
        self._broker = broker
        self._serve = serve
        self.budget = Budget(_or_unlimited(broker.config.queued_max_request_bytes))
        self.backlog = Backlog(REPLY_BACKLOG_BYTES_MAX)
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self._count_by_host: Counter[str] = Counter()
        self._scratch = memoryview(bytearray(RECEIVE_SCRATCH_BYTES))
        self._servers: list[asyncio.Server] = []
        self._is_closed = False

    @property
    def _config(self) -> BrokerConfig:
        return self._broker.config  # some of it changes while the broker runs

    async def open(self, endpoint: Endpoint) -> int:
        """Listen on `endpoint`; the port, which matters when it asked for any."""
        server = await self._listen(endpoint, endpoint.port)
        ports: list[int] = [opened.getsockname()[1] for opened in server.sockets]
        if len(set(ports)) > 1:
            # Asked for any port on every interface, the system gives each address family another one.
            server.close()
            await server.wait_closed()
            server = await self._listen(endpoint, ports[0])
        self._servers.append(server)
        return ports[0]

    async def _listen(self, endpoint: Endpoint, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: self._accept(endpoint.name),
            endpoint.host or None,
            port,
            backlog=self._config.socket_listen_backlog_size,
        )

    async def sweep_forever(self) -> None:
        """Close what has idled or stalled for too long, again and again."""
        while True:
            await asyncio.sleep(CONNECTION_SWEEP_INTERVAL_S)
            try:
                self.sweep(asyncio.get_running_loop().time())
            except Exception:
                log.exception("looking through the connections failed")

    def sweep(self, now: float) -> None:
        """Close every connection that has idled or stalled for too long at `now`."""
        idle_s = _or_unlimited(self._config.connections_max_idle_ms) / 1000
        stall_s = self._config.runnel_request_read_timeout_ms / 1000
        for connection in tuple(self.connections):
            connection.let_go_if_overdue(now, idle_s, stall_s)

    async def close(self) -> None:
        """Stop accepting and let every connection go."""
        self._is_closed = True
        await self._stop_accepting()
        for server in self._servers:
            server.close()
        await asyncio.gather(*[connection.end() for connection in tuple(self.connections)], return_exceptions=True)

    async def _stop_accepting(self) -> None:
        """Let connections through that are just being accepted: asyncio forgets those of a server that is closed."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for server in self._servers:
                for listening in server.sockets:
                    loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)

    def _accept(self, listener_name: str) -> Connection:
        reader = FrameReader(self._config.socket_request_max_bytes, self._scratch)
        sizes = SocketSizes(self._config.socket_send_buffer_bytes, self._config.socket_receive_buffer_bytes)
        return Connection(self._serve, reader, self.budget, self.backlog, listener_name, sizes, self)

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection in, or say why it must go."""
        if self._is_closed:
            return "the broker stops"  # it was accepted before, and its turn comes only now
        per_address_max = self._config.max_connections_per_ip
        if self._count_by_host[connection.host] >= per_address_max:
            return f"there are {per_address_max} connections from its address already"
        count_max = min(self._config.max_connections, self._broker.descriptors.connection_count_max)
        if count_max == 0:
            return "max.connections is 0"
        if len(self.connections) >= count_max:
            idlest = min(self.connections, key=lambda other: (not other.is_idle, other.active_at))
            self.forget(idlest)
            idlest.abort(f"it was the idlest of {count_max} connections")
        self.connections[connection] = None
        self._count_by_host[connection.host] += 1
        return None

    def forget(self, connection: Connection) -> None:
        """Count a connection out, if it was counted in."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._count_by_host[connection.host] -= 1
        if not self._count_by_host[connection.host]:
            del self._count_by_host[connection.host]


def _or_unlimited(limit: int) -> int:
    """Kafka writes "no limit" as a negative number."""
    return limit if limit >= 0 else sys.maxsize
