"""Encode and decode messages, with functions compiled for each message and version on first use.

This is the broker's hot path. `reference` does the same slowly and obviously, and the
tests hold the two against each other for every message and version.
"""

from struct import error as StructError  # noqa: N812 — the module's own name says nothing
from typing import TypeVar

from runnel.protocol.decoder import Decoder, DecoderWriter
from runnel.protocol.encoder import Encoder, EncoderWriter
from runnel.protocol.errors import EncodeError, RemoteProtocolError
from runnel.protocol.message import Message
from runnel.protocol.primitive import INT32_MAX, Buffer

M = TypeVar("M", bound=Message)

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encode(message: Message, version: int) -> bytes:
    """The message's bytes in this version."""
    pieces: list[Buffer] = []
    encode_into(message, version, pieces)
    return b"".join(pieces)


def encode_into(message: Message, version: int, out: list[Buffer]) -> None:
    """Append the message's bytes to `out` in pieces; records are appended as they are and never copied."""
    cls = type(message)
    encoder = _encoders.get((cls, version)) or _compile_encoder(cls, version)
    try:
        encoder(message, out)
    except (StructError, AttributeError, TypeError) as error:
        raise EncodeError(f"{cls.__name__} version {version}: {error}") from error


def decode(
    cls: type[M], buffer: Buffer, version: int, position: int = 0, element_count_max: int = INT32_MAX
) -> tuple[M, int]:
    """Read a message and return it with the position behind it.

    Records become a view of the buffer, everything else is copied out of it. All arrays of the
    message and its tagged fields together may have `element_count_max` elements.
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
