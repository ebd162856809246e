"""The door of a listener with TLS: a client that was accepted makes its handshake before it is served.

The connection is counted when it is accepted, so that the bounds on connections hold for clients that never finish a
handshake. Each one uses the certificates of the moment. A connection that is closed without a byte is no failure: load
balancers look in this way whether the broker is there.
"""

import asyncio
import contextlib
import os
import ssl
from typing import cast

from tailrace.security.tls.accepted import AcceptedContext
from tailrace.server.connection import Connection, ConnectionClosed
from tailrace.server.security.failure_log import FailureLog, is_departure
from tailrace.server.security.guard import ListenerGuard


class TlsDoor(asyncio.Protocol):
    """The protocol of a TCP connection until its handshake is complete; then the connection takes its place."""

    def __init__(self, connection: Connection, guard: ListenerGuard, failures: FailureLog) -> None:
        self._connection = connection
        self._guard = guard
        self._failures = failures
        self._opening: asyncio.Task[None] | None = None
        self._early = b""
        self._has_sent_bytes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tcp = cast("asyncio.Transport", transport)
        tcp.pause_reading()
        if self._connection.arrive(tcp):
            self._opening = asyncio.get_running_loop().create_task(self._open(tcp))

    def data_received(self, data: bytes) -> None:
        self._early += data  # uvloop reads until the handshake begins, although reading is paused

    def _note_bytes(self) -> None:
        self._has_sent_bytes = True

    async def _open(self, tcp: asyncio.Transport) -> None:
        connection, context = self._connection, cast("ssl.SSLContext", self._guard.tls)
        loop, timeout_s = asyncio.get_running_loop(), self._guard.limits.timeout_s
        began_at_s = loop.time()
        try:
            transport = await loop.start_tls(
                tcp,
                connection,
                AcceptedContext.take(context, self._early, self._note_bytes, lambda alert: _send(tcp, alert)),
                server_side=True,
                ssl_handshake_timeout=timeout_s,
            )
            tls = None if transport is None else transport.get_extra_info("ssl_object")
            if transport is None or tls is None:
                # uvloop may return a transport although the handshake has ended without success.
                raise TimeoutError if loop.time() - began_at_s >= timeout_s else ConnectionResetError
            if not self._guard.has_login:
                connection.principal = self._guard.certificate_principal(tls)
        except (OSError, TimeoutError, ConnectionClosed) as error:
            if self._has_sent_bytes or not is_departure(error):
                self._failures.handshake(connection, error)
            connection.abandon()
        except BaseException:
            connection.abandon()
            raise
        else:
            connection.begin(transport)


def _send(tcp: asyncio.Transport, alert: bytes) -> None:
    """Write an alert to the socket at once: the transport is about to drop what it has not written."""
    with contextlib.suppress(OSError):
        os.write(tcp.get_extra_info("socket").fileno(), alert)
