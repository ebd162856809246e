"""Frames: four bytes of length, a header and a message.

The transport sends the returned pieces as they are. Small pieces are joined, because every piece
costs the kernel an entry in its vector. Large pieces, which are records, are not joined, because that
would copy them.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 — the module's own name says nothing
from typing import NamedTuple, TypeVar

from tailrace.base.limits import FRAME_PIECE_JOINED_BYTES_MAX, HEADER_TAGGED_FIELDS_MAX
from tailrace.protocol import codec
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import EncodeError, RemoteProtocolError
from tailrace.protocol.message import Message
from tailrace.protocol.primitive import Buffer, skip_tagged_fields
from tailrace.protocol.registry import find_request_type

M = TypeVar("M", bound=Message)

_LENGTH = Struct(">i")
LENGTH_BYTES = _LENGTH.size
_RESPONSE_HEAD = Struct(">ii")
_REQUEST_HEAD = Struct(">hhih")
_REQUEST_PREFIX = Struct(">ihhih")


class RequestHeader(NamedTuple):
    """The header of a request. The key is a plain number, because it may be unknown."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Decode a request header and return it with the position of the body.

    If the key is unknown, the header is read in its old form, and the position has no meaning.
    """
    try:
        api_key, api_version, correlation_id, size = _REQUEST_HEAD.unpack_from(buffer, position)
    except StructError as error:
        raise RemoteProtocolError("the request is shorter than its header") from error
    position += _REQUEST_HEAD.size
    client_id = None
    if size >= 0:
        client_id, position = _decode_client_id(buffer, position, size)
    elif size != -1:
        raise RemoteProtocolError("the client id has a negative length")
    request_type = find_request_type(api_key)
    if request_type is not None and api_version in request_type.SCHEMA.flexible:
        position = skip_tagged_fields(buffer, position, HEADER_TAGGED_FIELDS_MAX)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def _decode_client_id(buffer: Buffer, position: int, size: int) -> tuple[str, int]:
    stop = position + size
    if stop > len(buffer):
        raise RemoteProtocolError("the client id is longer than the request")
    # The name is for people only. Like Kafka, do not reject a client for its encoding.
    return str(buffer[position:stop], "utf-8", "replace"), stop


def encode_request(correlation_id: int, client_id: str | None, request: Message, version: int) -> list[Buffer]:
    """Encode a whole request frame."""
    schema = request.SCHEMA
    if schema.key is None:
        raise EncodeError(f"{schema.name} is not a request")
    name = b"" if client_id is None else client_id.encode()
    tail = b"\0" if version in schema.flexible else b""
    pieces: list[Buffer] = [b"", name, tail]
    codec.encode_into(request, version, pieces)
    size = sum(map(len, pieces)) + _REQUEST_HEAD.size
    name_size = -1 if client_id is None else len(name)
    pieces[0] = _REQUEST_PREFIX.pack(size, schema.key, version, correlation_id, name_size)
    return join_small(pieces, size)


def encode_response(correlation_id: int, response: Message, version: int) -> list[Buffer]:
    """Encode a whole response frame."""
    pieces: list[Buffer] = [b"", b"\0" if _has_flexible_header(type(response), version) else b""]
    codec.encode_into(response, version, pieces)
    size = sum(map(len, pieces)) + _LENGTH.size
    pieces[0] = _RESPONSE_HEAD.pack(size, correlation_id)
    return join_small(pieces, size)


def decode_response(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> tuple[int, M]:
    """Decode a response without its length, and return its correlation id and body."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(buffer, position)
    except StructError as error:
        raise RemoteProtocolError("the response is shorter than its header") from error
    position += _LENGTH.size
    if _has_flexible_header(cls, version):
        position = skip_tagged_fields(buffer, position)
    response, _ = codec.decode(cls, buffer, version, position)
    return correlation_id, response


def join_small(pieces: Sequence[Buffer], size: int) -> list[Buffer]:
    """Join adjacent pieces below the limit; `size` is the sum of all."""
    if size < FRAME_PIECE_JOINED_BYTES_MAX:
        return [b"".join(pieces)]
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < FRAME_PIECE_JOINED_BYTES_MAX:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(piece)
    if small:
        joined.append(b"".join(small))
    return joined


def _has_flexible_header(cls: type[Message], version: int) -> bool:
    # A client reads the ApiVersions response before it knows the broker's versions (KIP-511).
    return version in cls.SCHEMA.flexible and cls.SCHEMA.key is not ApiKey.API_VERSIONS
