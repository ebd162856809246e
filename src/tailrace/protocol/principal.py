"""The principal of a client, as a broker tells it to another one with a request that it forwards."""

from tailrace.protocol.consumer_protocol import decode_versioned, encode_versioned
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, STRING, Buffer


@message(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """The type and the name of a principal, and whether a delegation token proved them. The name is Kafka's."""

    type: str = wire(STRING, "0+")
    name: str = wire(STRING, "0+")
    token_authenticated: bool = wire(BOOLEAN, "0+")


def encode_principal(principal: str, *, is_token_authenticated: bool) -> bytes:
    """Encode a principal that is written as `TYPE:NAME`."""
    kind, _, name = principal.partition(":")
    return encode_versioned(DefaultPrincipalData(type=kind, name=name, token_authenticated=is_token_authenticated))


def decode_principal(data: Buffer) -> tuple[str, bool]:
    """Return a principal, written as `TYPE:NAME`, and whether a delegation token proved it."""
    decoded = decode_versioned(DefaultPrincipalData, data)
    if not decoded.type:
        raise RemoteProtocolError("the principal has no type")
    return f"{decoded.type}:{decoded.name}", decoded.token_authenticated
