"""Bare connections to secured listeners: TLS from Python's own library, SASL messages as bytes."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from tests.clients.raw import Answer, Wire
from tests.clients.security.ground import PLAIN_USER, Ground

PLAIN_MESSAGE = f"\0{PLAIN_USER.name}\0{PLAIN_USER.password}".encode()


def tls_context(ground: Ground) -> ssl.SSLContext:
    """A client's context that trusts the broker."""
    return ssl.create_default_context(cafile=str(ground.issuer.trust))


class TlsWire(Wire):
    """A bare connection over TLS."""

    def __init__(self, ground: Ground, listener: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(ground.broker.address(listener))
        self._socket: socket.socket = (context or tls_context(ground)).wrap_socket(
            self._socket, server_hostname="127.0.0.1"
        )

    @property
    def subject(self) -> str:
        """The common name of the broker's certificate."""
        assert isinstance(self._socket, ssl.SSLSocket)
        found: Any = self._socket.getpeercert()
        return next(str(value) for ((name, value),) in found["subject"] if name == "commonName")


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> Answer:
    """Choose a mechanism."""
    return wire.ask("SaslHandshake", version, mechanism=mechanism)


def authenticate(wire: Wire, message: bytes = PLAIN_MESSAGE) -> Answer:
    """Send one message of a mechanism."""
    return wire.ask("SaslAuthenticate", 2, auth_bytes=message)


def log_in(wire: Wire) -> dict[str, Any]:
    """Log in by PLAIN, and return the last answer."""
    chosen, answer = handshake(wire), authenticate(wire)
    assert not isinstance(chosen, str)
    assert not isinstance(answer, str)
    assert (chosen["error_code"], answer["error_code"]) == (0, 0)
    return answer
