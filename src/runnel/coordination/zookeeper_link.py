"""kazoo's client, as the event loop sees it.

kazoo speaks to ZooKeeper in a thread of its own. All that the thread learns, answers,
events and what becomes of the connection, is handed to the event loop in the order in
which it was learnt; an answer that overtook the events before it would break what the
store promises. kazoo knows no persistent watches and forgets which time-out the server
grants, so this file reaches into it.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Watch
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from runnel.base.clock import Clock
from runnel.coordination.store import SessionState
from runnel.coordination.zookeeper_socket import SocketHandler

OnState = Callable[[SessionState], None]
OnEvent = Callable[[str], None]
OnAnswer = Callable[[Any, Exception | None], None]

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}
_RETRY_DELAY_S = 0.1
_RETRY_DELAY_S_MAX = 1.0
_CLOSE_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class ZooKeeperServers:
    """Where ZooKeeper is and how to reach it."""

    hosts: str
    """host:port pairs with commas between them."""
    session_timeout_ms: int = 18_000
    tls: ssl.SSLContext | None = None
    digest: str | None = None
    """A user and a password, as user:password."""


class Link:
    """A session with ZooKeeper, or the attempt to get one; never gives up."""

    def __init__(self, servers: ZooKeeperServers, clock: Clock, on_state: OnState, on_event: OnEvent) -> None:
        self.session_timeout_ms = servers.session_timeout_ms
        """What the servers grant; until then what was asked for."""
        self.hosts = servers.hosts
        self.connect_sent_ms = 0
        """When the request was sent by which the connection was made."""
        self._clock = clock
        self._on_state = on_state
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._posted: deque[Callable[[], None]] = deque()
        self._is_waking = False
        self._journal = _Journal()
        self._client = self._make_client(servers)

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: object, on_answer: OnAnswer) -> None:
        """Send a request; `on_answer` gets the answer or the error, in the order of all that arrives."""
        self._client._call(request, _Answer(self, on_answer))

    @property
    def trouble(self) -> str:
        """The last thing that went wrong, in kazoo's words."""
        return self._journal.last

    def cut(self) -> None:
        """Break the connection; another one is made at once."""
        self._client._connection.cut()

    async def close(self) -> None:
        await self._loop.run_in_executor(None, self._stop)

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Have the event loop call `function`, from whatever thread."""
        self._posted.append(partial(function, *arguments))
        if not self._is_waking:
            # One call for all that is posted until the loop comes to it: waking it costs more than what is posted.
            self._is_waking = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody wants to know
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_waking = False
        for _ in range(len(self._posted)):
            try:
                self._posted.popleft()()
            except Exception as error:
                # What goes wrong in one call is no reason to keep the others from what they wait for.
                self._loop.call_exception_handler({"message": "news of ZooKeeper met an error", "exception": error})

    def on_connect(self, sent_ms: int, session_timeout_ms: int) -> None:
        self.connect_sent_ms, self.session_timeout_ms = sent_ms, session_timeout_ms

    def on_event(self, path: str) -> None:
        self.post(self._on_event, path)

    def _make_client(self, servers: ZooKeeperServers) -> KazooClient:
        client = KazooClient(
            hosts=servers.hosts,
            timeout=servers.session_timeout_ms / 1000,
            handler=SocketHandler(servers.tls, servers.hosts.count(",") + 1),
            connection_retry=KazooRetry(
                max_tries=-1, delay=_RETRY_DELAY_S, max_delay=_RETRY_DELAY_S_MAX, max_jitter=0.4
            ),
            auth_data=[("digest", servers.digest)] if servers.digest else None,
            logger=self._journal.logger,
        )
        client._connection = _Connection(client, self, self._clock)
        client.add_listener(lambda state: self.post(self._on_state, _STATES[state]))
        return client

    def _stop(self) -> None:
        # A server that does not answer is left alone; the session ends by its time-out.
        cut = threading.Timer(_CLOSE_PATIENCE_S, self._client._connection.cut)
        cut.start()
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            logging.getLogger("runnel.zookeeper").warning("the session with ZooKeeper was not ended: %r", error)
        finally:
            cut.cancel()


class _Answer:
    """What kazoo fills with the answer to one request."""

    def __init__(self, link: Link, on_answer: OnAnswer) -> None:
        self._link = link
        self._on_answer = on_answer

    def set(self, value: object = None) -> None:
        self._link.post(partial(self._on_answer, value, None))

    def set_exception(self, error: Exception) -> None:
        self._link.post(partial(self._on_answer, None, error))


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """One that tells of every event, and of the time-out that the server grants."""

    def __init__(self, client: KazooClient, link: Link, clock: Clock) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self._link = link
        self._clock = clock

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> Any:
        sent_ms = self._clock.monotonic_ms()
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            self._link.on_connect(sent_ms, answer[0].time_out)
        return answer

    def _connect_attempt(self, *arguments: Any) -> Any:
        try:
            return super()._connect_attempt(*arguments)
        except Exception as error:
            # kazoo would end its thread, and nobody would ever connect again.
            self.logger.warning("the connection made no sense: %r", error)
            if self.client._state != KeeperState.CONNECTING:
                self.client._session_callback(KeeperState.CONNECTING)
            return None

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self._link.on_event(event.path)

    def cut(self) -> None:
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)


class _Journal(logging.Handler):
    """What kazoo has to say; the store tells the rest in its own words."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.logger = logging.Logger("runnel.zookeeper.kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            logging.getLogger("runnel.zookeeper").error(record.getMessage(), exc_info=record.exc_info)
        if record.args:  # without any it says that something happened, but not what
            self.last = record.getMessage()
