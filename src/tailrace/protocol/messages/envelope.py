"""Requests that a broker forwards for a client (KIP-590)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT16


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest(Message):
    """A request of a client with its header, and the client that sent it."""

    request_data: bytes = wire(BYTES, "0+")
    request_principal: bytes | None = wire(BYTES, "0+", nullable="0+")  # as `protocol.principal` encodes it
    client_host_address: bytes = wire(BYTES, "0+")  # 4 bytes, or 16 for IPv6


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """The reply to the request, with its header; or why the envelope was not opened."""

    response_data: bytes | None = wire(BYTES, "0+", nullable="0+", default=None)
    error_code: int = wire(INT16, "0+")
