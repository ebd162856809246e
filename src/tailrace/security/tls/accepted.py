"""A server's TLS context for one connection that has been accepted, which does what the event loops leave out.

The event loops ask the context of a connection for its TLS object, which reads from `incoming` and writes to
`outgoing`, two buffers in memory. That is where these things are mended:

- uvloop goes on reading after `pause_reading` in `connection_made`, so the client's first message may arrive before the
  loop's `start_tls` has changed the protocol. Those early bytes are put into `incoming`.
- After a failed handshake the loops close the connection without the alert that says why. It is taken from `outgoing`.
- The loops do not say whether a client that left had sent anything. The first bytes are seen in `incoming`.
"""

import ssl
from collections import deque
from collections.abc import Callable
from typing import Any


class _ServerObject(ssl.SSLObject):
    """A TLS object that hands over what it has to send when its handshake fails, and says when the first bytes come."""

    incoming: ssl.MemoryBIO
    on_bytes: Callable[[], None] | None = None
    on_failure: Callable[[], None] | None = None

    def do_handshake(self) -> None:
        if self.on_bytes is not None and self.incoming.pending:
            self.on_bytes()
            self.on_bytes = None
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            if self.on_failure is not None:
                self.on_failure()
            raise


class AcceptedContext(ssl.SSLContext):
    """The context of one connection until its handshake begins, and otherwise the one it is made of.

    OpenSSL's part of it is not used, and takes longer to make than a handshake to begin. It is therefore used again as
    soon as the TLS object exists.
    """

    _context: ssl.SSLContext
    _early: bytes
    _on_bytes: Callable[[], None]
    _send_alert: Callable[[bytes], None]

    @classmethod
    def take(
        cls,
        context: ssl.SSLContext,
        early: bytes,
        on_bytes: Callable[[], None],
        send_alert: Callable[[bytes], None],
    ) -> "AcceptedContext":
        """Return the context of a connection.

        `early` has the bytes that were read before. `on_bytes` is called when the client has sent its first bytes.
        `send_alert` is called with the alert of a failed handshake, and must send it at once, because the loop closes
        the connection when it returns.
        """
        taken = _free.pop() if _free else cls(ssl.PROTOCOL_TLS_SERVER)
        taken._context, taken._early, taken._on_bytes, taken._send_alert = context, early, on_bytes, send_alert
        return taken

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **keywords: Any
    ) -> ssl.SSLObject:
        """Return the TLS object of the connection, and give this context back."""
        context, on_bytes, send_alert = self._context, self._on_bytes, self._send_alert
        incoming.write(self._early)
        _free.append(self)
        context.sslobject_class = _ServerObject
        tls = context.wrap_bio(incoming, outgoing, *arguments, **keywords)
        if isinstance(tls, _ServerObject):
            tls.incoming, tls.on_bytes = incoming, on_bytes
            tls.on_failure = lambda: send_alert(outgoing.read())
        return tls


_free: deque[AcceptedContext] = deque(maxlen=16)
"""Contexts to use again. Between taking and giving back there are two turns of the loop, so few are needed."""
