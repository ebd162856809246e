"""The sockets of kazoo's connections: with our TLS context, buffered reads and a timeout for each host.

kazoo reads the four bytes of a length and then the rest, and creates a selector for each poll of a
socket; ten thousand events would take it a second. Here one read takes everything that has arrived,
and buffered bytes count as readable. That also covers data that TLS has already decrypted, of which
the socket itself does not know.
"""

import select
import socket
import ssl
import struct
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import create_tcp_connection

_READ_BYTES = 64 * 1024


class BufferedSocket:
    """A connection as kazoo uses it; `pending` is the number of bytes available without network access."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = memoryview(b"")

    def pending(self) -> int:
        beneath = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return len(self._buffer) + beneath

    def recv(self, size_bytes: int) -> bytes:
        if not self._buffer:
            self._buffer = memoryview(self._socket.recv(max(size_bytes, _READ_BYTES)))
        taken, self._buffer = self._buffer[:size_bytes], self._buffer[size_bytes:]
        return bytes(taken)

    def send(self, data: bytes | memoryview) -> int:
        return self._socket.send(data)

    def fileno(self) -> int:
        return self._socket.fileno()

    def setblocking(self, is_blocking: bool) -> None:
        self._socket.setblocking(is_blocking)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()


class SocketHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Creates kazoo's connections and polls them."""

    def __init__(self, tls: ssl.SSLContext | None, host_count: int) -> None:
        super().__init__()
        self._tls = tls
        self._host_count = host_count

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_of_kazoo: object
    ) -> BufferedSocket:
        # An unresponsive host must not use up the session timeout while another host could answer.
        timeout /= self._host_count
        connected: socket.socket = create_tcp_connection(socket, address, timeout=timeout)
        # Data that was not sent when a connection is given up must not arrive later: by then the caller may have
        # checked whether its commit was applied, and seen that it was not.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._tls is None:
            return BufferedSocket(connected)
        try:
            connected.settimeout(timeout)
            return BufferedSocket(self._tls.wrap_socket(connected, server_hostname=hostname))
        except BaseException:
            connected.close()
            raise

    def select(
        self,
        reading: list[Any],
        writing: list[Any],
        failing: list[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        buffered = [each for each in reading if isinstance(each, BufferedSocket) and each.pending()]
        wait_ms = 0 if buffered else None if timeout is None else max(0, int(timeout * 1000))
        poll = select.poll()
        for each in reading:
            poll.register(each, select.POLLIN)
        for each in writing:
            poll.register(each, select.POLLOUT)
        events = dict(poll.poll(wait_ms))
        readable = [each for each in reading if each in buffered or events.get(each.fileno())]
        return readable, [each for each in writing if events.get(each.fileno())], []
