"""The adapter between kazoo's client and the event loop.

kazoo talks to ZooKeeper on its own thread. Replies, events and changes of the connection are passed to
the event loop in the order of their arrival; a reply that overtook earlier events would violate the
guarantees of the store. kazoo does not support persistent watches and does not keep the timeout that
the server grants, so this module uses its internals.
"""

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect, Watch
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from tailrace.base.clock import Clock
from tailrace.coordination.store import SessionState
from tailrace.coordination.zookeeper.login import WRONG_LOGIN, LoginRefused, SaslLogin, log_in
from tailrace.coordination.zookeeper.socket import SocketHandler

OnState = Callable[[SessionState], None]
OnEvent = Callable[[str], None]
OnRefusal = Callable[[str, bool], None]
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
    """The addresses of ZooKeeper and the options of the connection."""

    hosts: str
    """host:port pairs, separated by commas."""
    session_timeout_ms: int = 18_000
    tls: ssl.SSLContext | None = None
    digest: str | None = field(default=None, repr=False)
    """A user and a password, as user:password."""
    sasl: SaslLogin | None = None


class Link:
    """A session with ZooKeeper, or the attempt to open one. It never gives up."""

    def __init__(
        self, servers: ZooKeeperServers, clock: Clock, on_state: OnState, on_event: OnEvent, on_refusal: OnRefusal
    ) -> None:
        self.session_timeout_ms = servers.session_timeout_ms
        """The timeout that the servers granted, or until then the requested one."""
        self.hosts = servers.hosts
        self.connect_sent_ms = 0
        """When the request was sent that opened the current connection."""
        self._clock = clock
        self._on_state = on_state
        self._on_event = on_event
        self._on_refusal = on_refusal
        self._loop = asyncio.get_running_loop()
        self._host_count = servers.hosts.count(",") + 1
        self._refusing: set[str] = set()
        self._posted: deque[Callable[[], None]] = deque()
        self._is_waking = False
        self._journal = _Journal()
        self._client = self._make_client(servers)

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: object, on_answer: OnAnswer) -> None:
        """Send a request; `on_answer` gets the reply or the error, in the order of arrival."""
        self._client._call(request, _Answer(self, on_answer))

    @property
    def trouble(self) -> str:
        """The last error that kazoo logged."""
        return self._journal.last

    def cut(self) -> None:
        """Break the connection; kazoo reconnects at once."""
        self._client._connection.cut()

    async def close(self) -> None:
        await self._loop.run_in_executor(None, self._stop)

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Call `function` on the event loop, from any thread."""
        self._posted.append(partial(function, *arguments))
        if not self._is_waking:
            # One call for everything posted until the loop runs it, because waking the loop is expensive.
            self._is_waking = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_waking = False
        for _ in range(len(self._posted)):
            try:
                self._posted.popleft()()
            except Exception as error:
                # An error in one call must not keep the others from running.
                message = "the handler of a message from ZooKeeper failed"
                self._loop.call_exception_handler({"message": message, "exception": error})

    def on_connect(self, sent_ms: int, session_timeout_ms: int) -> None:
        self.connect_sent_ms, self.session_timeout_ms = sent_ms, session_timeout_ms

    def on_event(self, path: str) -> None:
        self.post(self._on_event, path)

    def on_refusal(self, address: str, reason: str) -> None:
        self._refusing.add(address)
        self.post(self._on_refusal, f"ZooKeeper at {address} {reason}", len(self._refusing) >= self._host_count)

    def on_login(self) -> None:
        self._refusing.clear()

    def _make_client(self, servers: ZooKeeperServers) -> KazooClient:
        client = KazooClient(
            hosts=servers.hosts,
            timeout=servers.session_timeout_ms / 1000,
            handler=SocketHandler(servers.tls, self._host_count),
            connection_retry=KazooRetry(
                max_tries=-1, delay=_RETRY_DELAY_S, max_delay=_RETRY_DELAY_S_MAX, max_jitter=0.4
            ),
            auth_data=[("digest", servers.digest)] if servers.digest else None,
            logger=self._journal.logger,
        )
        client._connection = _Connection(client, self, self._clock, servers.sasl)
        client.add_listener(lambda state: self.post(self._on_state, _STATES[state]))
        return client

    def _stop(self) -> None:
        # If the server does not respond, the session ends by its timeout.
        cut = threading.Timer(_CLOSE_PATIENCE_S, self._client._connection.cut)
        cut.start()
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            log = logging.getLogger("tailrace.zookeeper")
            log.warning("could not end the session with ZooKeeper; it ends by its timeout: %r", error)
        finally:
            cut.cancel()


class _Answer:
    """A result object that kazoo sets to the reply to one request."""

    def __init__(self, link: Link, on_answer: OnAnswer) -> None:
        self._link = link
        self._on_answer = on_answer

    def set(self, value: object = None) -> None:
        self._link.post(partial(self._on_answer, value, None))

    def set_exception(self, error: Exception) -> None:
        self._link.post(partial(self._on_answer, None, error))


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """A connection that forwards every event, and the timeout that the server grants."""

    def __init__(self, client: KazooClient, link: Link, clock: Clock, login: SaslLogin | None) -> None:
        # kazoo calls `_authenticate_with_sasl` on each connection if it has options for it.
        super().__init__(client, client._conn_retry.copy(), logger=client.logger, sasl_options=login)
        self._link = link
        self._clock = clock
        self._login = login
        self._address = ""

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> Any:
        sent_ms = self._clock.monotonic_ms()
        try:
            answer = super()._invoke(timeout, request, xid)
        except AuthFailedError:
            raise self._refused("has no scheme digest, which tailrace.zookeeper.digest needs") from None
        if isinstance(request, Connect):
            self._link.on_connect(sent_ms, answer[0].time_out)
        return answer

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        if self._login is None:
            return
        xids = itertools.count(1)

        def ask(message: bytes) -> bytes | None:
            xid = next(xids)
            self._submit(SASL(message), timeout, xid)
            header, answer, offset = self._read_header(timeout)
            if header.xid != xid:
                raise ConnectionDropped("invalid reply to a SASL message")
            if header.err:
                raise LoginRefused(WRONG_LOGIN)
            token: bytes | None = SASL.deserialize(answer, offset)[0]
            return token

        try:
            log_in(self._login, ask)
        except LoginRefused as refused:
            raise self._refused(f"refuses the SASL login of user {self._login.user}: {refused}") from None
        self._link.on_login()

    def _refused(self, reason: str) -> ConnectionDropped:
        """Report a refused login, and return the error after which kazoo connects again.

        It would end its thread after others. The servers may get the right password while the broker runs.
        """
        self._link.on_refusal(self._address, reason)
        return ConnectionDropped(f"{self._address} {reason}")

    def _connect_attempt(self, host: str, host_address: str, port: int, retry: Any) -> Any:
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            return super()._connect_attempt(host, host_address, port, retry)
        except Exception as error:
            # kazoo would end its thread and never connect again.
            self.logger.warning("the connection to ZooKeeper failed: %r", error)
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
    """A log handler that keeps kazoo's last error; the store logs the state in its own words."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.logger = logging.Logger("tailrace.zookeeper.kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            logging.getLogger("tailrace.zookeeper").error(record.getMessage(), exc_info=record.exc_info)
        if record.args:  # messages without arguments do not name the cause
            self.last = record.getMessage()
