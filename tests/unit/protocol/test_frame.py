"""Frames: length, header and body together."""

import struct
from typing import Any

import pytest

from tailrace.base.limits import FRAME_PIECE_JOINED_BYTES_MAX
from tailrace.protocol import codec
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import EncodeError, RemoteProtocolError
from tailrace.protocol.frame import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    join_small,
)
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker


def unframe(pieces: list[Any]) -> bytes:
    """The frame without its length, which must be right."""
    frame = b"".join(pieces)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    return frame[4:]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("client_id", ["me", "", None, "naïve"])
def test_a_request_is_read_back(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=None)
    body = unframe(encode_request(7, client_id, request, version))
    header, position = decode_request_header(body)
    assert header == RequestHeader(ApiKey.METADATA, version, 7, client_id)
    assert codec.decode(MetadataRequest, body, version, position) == (request, len(body))


def test_the_client_id_keeps_its_old_form_in_a_flexible_header() -> None:
    """Then a broker can read the header of an ApiVersions request from the future."""
    body = unframe(encode_request(1, "me", ApiVersionsRequest(), 3))
    assert body.hex(" ") == "00 12 00 03 00 00 00 01 00 02 6d 65 00 01 01 00"


def test_a_version_beyond_ours_still_has_a_readable_header() -> None:
    body = bytes.fromhex("0012 0063 00000001 0002 6d65 01 05 01 00") + b"unreadable"
    assert decode_request_header(body) == (RequestHeader(ApiKey.API_VERSIONS, 99, 1, "me"), 16)


def test_an_unknown_key_is_left_to_the_caller() -> None:
    header, _ = decode_request_header(bytes.fromhex("7fff 0001 00000009 ffff"))
    assert header == RequestHeader(0x7FFF, 1, 9, None)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "0003 0009 00000001 00",
        "0003 0009 00000001 0003 6d65",
        "0003 0009 00000001 fffe",
        "0003 0009 00000001 0001 ff",
    ],
)
def test_headers_that_lie(header: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request_header(bytes.fromhex(header))


def test_every_prefix_of_a_flexible_header_is_refused() -> None:
    whole = bytes.fromhex("0003 0009 00000001 0002 6d65 01 05 01 00")
    assert decode_request_header(whole)[1] == len(whole)
    for size in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decode_request_header(whole[:size])


@pytest.mark.parametrize("version", [8, 9])
def test_a_response_is_read_back(version: int) -> None:
    response = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h", port=2)])
    body = unframe(encode_response(5, response, version))
    assert decode_response(MetadataResponse, body, version) == (5, response)


def test_the_api_versions_response_never_has_a_flexible_header() -> None:
    body = unframe(encode_response(1, ApiVersionsResponse(), 3))
    assert body[4:] == codec.encode(ApiVersionsResponse(), 3)
    assert decode_response(ApiVersionsResponse, body, 3) == (1, ApiVersionsResponse())


def test_a_response_that_ends_in_its_header_is_refused() -> None:
    for body in (b"\0\0\0", b"\0\0\0\1"):
        with pytest.raises(RemoteProtocolError):
            decode_response(MetadataResponse, body, 9)


def test_large_records_are_pieces_of_their_own() -> None:
    large = memoryview(bytes(FRAME_PIECE_JOINED_BYTES_MAX))
    partitions = [FetchResponsePartition(partition_index=index, records=large) for index in range(2)]
    response = FetchResponse(responses=[FetchResponseTopic(topic="t", partitions=partitions)])
    pieces = encode_response(1, response, 12)
    assert [piece is large for piece in pieces] == [False, True, False, True, False]
    assert decode_response(FetchResponse, unframe(pieces), 12) == (1, response)


def test_small_pieces_become_one() -> None:
    assert join_small([b"a", b"", memoryview(b"b")], 2) == [b"ab"]
    large = bytes(FRAME_PIECE_JOINED_BYTES_MAX)
    assert join_small([large, b"a", b"b"], len(large) + 2) == [large, b"ab"]


def test_only_requests_can_be_sent_as_requests() -> None:
    with pytest.raises(EncodeError):
        encode_request(1, None, MetadataResponseBroker(), 9)


def test_a_client_id_that_is_not_utf_8_is_readable_all_the_same() -> None:
    frame = bytes.fromhex("0012 0000 00000007 0002 ff41")
    header, position = decode_request_header(frame)
    assert header.client_id == "\ufffdA"
    assert position == len(frame)
