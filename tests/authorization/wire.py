"""A connection that sends one request after the other, as a user who logs in with SASL/PLAIN."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tailrace.protocol.registry import response_type

TIMEOUT_S = 60.0
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2


class Closed(Exception):
    """The broker closed the connection without a reply."""


class Wire:
    """A connection of a user."""

    def __init__(self, address: str, user: str, password: str) -> None:
        host, port = address.rsplit(":", 1)
        self.user = user
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._correlation_id = 0
        self._log_in(password)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its reply; raise `Closed` if there is none."""
        self.send(request, version)
        try:
            (size,) = struct.unpack(">i", self._receive(4))
            frame = self._receive(size)
        except ConnectionError as error:
            raise Closed from error
        key = request.SCHEMA.key
        assert key is not None
        _, response = decode_response(response_type(key), frame, version)
        return response

    def send(self, request: Message, version: int) -> None:
        """Send a request that has no reply."""
        self._correlation_id += 1
        self._socket.sendall(b"".join(encode_request(self._correlation_id, self.user, request, version)))

    def _log_in(self, password: str) -> None:
        handshake: SaslHandshakeResponse = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), _HANDSHAKE_VERSION)
        assert handshake.error_code == 0, handshake
        token = b"\0".join((b"", self.user.encode(), password.encode()))
        reply: SaslAuthenticateResponse = self.ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)
        assert reply.error_code == 0, reply

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise Closed
            data += part
        return data
