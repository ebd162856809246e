"""The codec of messages, with functions compiled for each message and version on first use.

This is the broker's hot path. `reference` is a slow and simple version of the same, and tests compare
the two for every message and version.
"""

from struct import error as StructError  # noqa: N812 — the module's own name says nothing
from typing import TypeVar

from tailrace.base.sentinel import INT32_MAX
from tailrace.protocol.decoder import Decoder, DecoderWriter
from tailrace.protocol.encoder import Encoder, EncoderWriter
from tailrace.protocol.errors import EncodeError, RemoteProtocolError
from tailrace.protocol.message import Message
from tailrace.protocol.primitive import Buffer

M = TypeVar("M", bound=Message)

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encode(message: Message, version: int) -> bytes:
    """Encode a message in this version."""
    pieces: list[Buffer] = []
    encode_into(message, version, pieces)
    return b"".join(pieces)


def encode_into(message: Message, version: int, out: list[Buffer]) -> None:
    """Append the message's bytes to `out` in pieces. Records are appended without a copy."""
    cls = type(message)
    encoder = _encoders.get((cls, version)) or _compile_encoder(cls, version)
    try:
        encoder(message, out)
    except (StructError, AttributeError, TypeError) as error:
        raise EncodeError(f"{cls.__name__} version {version}: {error}") from error


def decode(
    cls: type[M], buffer: Buffer, version: int, position: int = 0, element_count_max: int = INT32_MAX
) -> tuple[M, int]:
    """Decode a message and return it with the position after it.

    Records become a view of the buffer; everything else is copied. All arrays of the message and its
    tagged fields together may have `element_count_max` elements.
    """
    decoder = _decoders.get((cls, version)) or _compile_decoder(cls, version)
    try:
        message, position = decoder(buffer, position, element_count_max)
    except (StructError, IndexError) as error:
        raise RemoteProtocolError(f"{cls.__name__} version {version} ends early") from error
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{cls.__name__} version {version} has a string that is not UTF-8") from error
    return message, position


def _compile_encoder(cls: type[Message], version: int) -> Encoder:
    if version not in cls.SCHEMA.versions:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    encoder = _encoders[cls, version] = EncoderWriter(cls.SCHEMA, version).compile()
    return encoder


def _compile_decoder(cls: type[Message], version: int) -> Decoder:
    if version not in cls.SCHEMA.versions:
        raise RemoteProtocolError(f"{cls.__name__} has no version {version}")
    decoder = _decoders[cls, version] = DecoderWriter(cls.SCHEMA, version).compile()
    return decoder
