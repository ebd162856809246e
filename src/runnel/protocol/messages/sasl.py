"""Proof of who the client is."""

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BYTES, INT16, INT64, STRING, array


@message(key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    """Choose a mechanism; after version 0 the tokens follow bare, after version 1 in SaslAuthenticate."""

    mechanism: str = wire(STRING, "0+")


@message(key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    """Whether the mechanism is there, and which ones are."""

    error_code: int = wire(INT16, "0+")
    mechanisms: list[str] = wire(array(STRING), "0+")


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """Hand over a token of the mechanism (KIP-152)."""

    auth_bytes: bytes = wire(BYTES, "0+")


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The broker's token, or the reason for refusal."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    auth_bytes: bytes = wire(BYTES, "0+")
    # KIP-368: authenticate again before it is over; 0 for never
    session_lifetime_ms: int = wire(INT64, "1+", ignorable=True)
