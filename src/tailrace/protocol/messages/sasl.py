"""Messages of SASL authentication."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT16, INT64, STRING, array


@message(key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    """Choose a mechanism. Tokens follow unframed after version 0, and in SaslAuthenticate after version 1."""

    mechanism: str = wire(STRING, "0+")


@message(key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    """Whether the mechanism is enabled, and the enabled mechanisms."""

    error_code: int = wire(INT16, "0+")
    mechanisms: list[str] = wire(array(STRING), "0+")


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """Send a token of the mechanism (KIP-152)."""

    auth_bytes: bytes = wire(BYTES, "0+")


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The broker's token, or the error."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    auth_bytes: bytes = wire(BYTES, "0+")
    # KIP-368: the client must authenticate again within this time; 0 for no limit
    session_lifetime_ms: int = wire(INT64, "1+", ignorable=True)
