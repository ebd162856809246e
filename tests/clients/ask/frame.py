"""Frames, headers and versions."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

from tests.clients.ask.asker import Asker, question
from tests.clients.raw import CLOSED, Wire


def _send_raw(asker: Asker, data: bytes) -> str:
    with asker.wire() as wire:
        with contextlib.suppress(ConnectionError):
            wire.send(data)
        received = wire.receive()
        return received if isinstance(received, str) else "a reply"


def _header(key: int, version: int, client_id: bytes = b"ask") -> bytes:
    return struct.pack(">hhih", key, version, 7, len(client_id)) + client_id


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@question
def trailing_bytes(asker: Asker) -> Any:
    """A Metadata v1 request with three bytes after its body: answered, and is the connection usable afterwards?"""
    with asker.wire() as wire:
        wire.send_frame(wire.frame("Metadata", 1, {"topics": []}) + b"abc")
        answer = wire.answer("Metadata", 1)
        return {"answered": not isinstance(answer, str), "then": asker.alive(wire)}


@question
def truncated_body(asker: Asker) -> Any:
    """A Metadata v1 request whose array promises a topic that is not there."""
    return _send_raw(asker, _framed(_header(3, 1) + struct.pack(">i", 1)))


@question
def array_count_beyond_frame(asker: Asker) -> Any:
    """A Metadata v1 request that claims two thousand million topics in a frame of few bytes."""
    return _send_raw(asker, _framed(_header(3, 1) + struct.pack(">i", 2_000_000_000)))


@question
def array_count_below_minus_one(asker: Asker) -> Any:
    """A Metadata v1 request with an array count of -2, where -1 stands for null."""
    return _send_raw(asker, _framed(_header(3, 1) + struct.pack(">i", -2)))


@question
def array_count_below_minus_one_not_nullable(asker: Asker) -> Any:
    """A CreateTopics v4 request with an array count of -2, where null is not allowed."""
    return _send_raw(asker, _framed(_header(19, 4) + struct.pack(">iib", -2, 1000, 0)))


@question
def array_null_where_not_allowed(asker: Asker) -> Any:
    """A CreateTopics v4 request with null for its topics."""
    return _send_raw(asker, _framed(_header(19, 4) + struct.pack(">iib", -1, 1000, 0)))


@question
def string_null_where_not_allowed(asker: Asker) -> Any:
    """A Metadata v1 request for a topic whose name is null."""
    return _send_raw(asker, _framed(_header(3, 1) + struct.pack(">ih", 1, -1)))


@question
def unknown_api_key(asker: Asker) -> Any:
    """A request with the API key 999."""
    return _send_raw(asker, _framed(_header(999, 0)))


@question
def negative_api_key(asker: Asker) -> Any:
    """A request with the API key -1."""
    return _send_raw(asker, _framed(_header(-1, 0)))


@question
def removed_api_key(asker: Asker) -> Any:
    """A LeaderAndIsr request (key 4), which Kafka 4 no longer has."""
    return _send_raw(asker, _framed(_header(4, 0)))


@question
def unsupported_version(asker: Asker) -> Any:
    """Metadata in version 99."""
    return _send_raw(asker, _framed(_header(3, 99) + struct.pack(">i", 0)))


@question
def negative_version(asker: Asker) -> Any:
    """Metadata in version -1."""
    return _send_raw(asker, _framed(_header(3, -1) + struct.pack(">i", 0)))


@question
def produce_below_three(asker: Asker) -> Any:
    """Produce v2, which is advertised but not served: acks 1, no topics."""
    return _send_raw(asker, _framed(_header(0, 2) + struct.pack(">hii", 1, 1000, 0)))


@question
def api_versions_99(asker: Asker) -> Any:
    """ApiVersions v99 with a v2-style header: the exact reply without its length, and is the connection usable?"""
    with asker.wire() as wire:
        wire.send_frame(_header(18, 99) + b"\x00")
        reply = wire.receive()
        if isinstance(reply, str):
            return reply
        correlation_id, error_code, count = struct.unpack_from(">ihi", reply)
        entries = [struct.unpack_from(">hhh", reply, 10 + 6 * index) for index in range(count)]
        return {
            "correlation_id": correlation_id,
            "error_code": error_code,
            "keys": [key for key, _, _ in entries],
            "api_versions_min": next(low for key, low, _ in entries if key == 18),
            "bytes_after_the_array": len(reply) - 10 - 6 * count,
            "then": asker.alive(wire),
        }


@question
def client_id_null(asker: Asker) -> Any:
    """ApiVersions v0 with a client id of null."""
    body = struct.pack(">hhih", 18, 0, 7, -1)
    return _send_raw(asker, _framed(body))


def _software(asker: Asker, name: str, version: str) -> Any:
    with asker.wire() as wire:
        fields = {"client_software_name": name, "client_software_version": version}
        wire.send_frame(wire.frame("ApiVersions", 3, fields))
        received = wire.receive()
        if isinstance(received, str):
            return received
        error_code = struct.unpack_from(">ih", received)[1]
        # kafka-python reads any error as a v0 body, so the bytes themselves are the answer.
        body = received[4:].hex() if error_code else "the table"
        return {"error_code": error_code, "body": body, "then": asker.alive(wire)}


@question
def software_name_empty(asker: Asker) -> Any:
    """ApiVersions v3 with an empty client software name."""
    return _software(asker, "", "1.0")


@question
def software_name_with_space(asker: Asker) -> Any:
    """ApiVersions v3 with a client software name that has a space in it."""
    return _software(asker, "my client", "1.0")


@question
def software_name_good(asker: Asker) -> Any:
    """ApiVersions v3 with names that are allowed."""
    return _software(asker, "my.client-1", "1.0")


@question
def length_zero(asker: Asker) -> Any:
    """A frame of length 0."""
    return _send_raw(asker, struct.pack(">i", 0))


@question
def length_negative(asker: Asker) -> Any:
    """A frame of length -1."""
    return _send_raw(asker, struct.pack(">i", -1))


@question
def length_200_mb(asker: Asker) -> Any:
    """A frame that claims 200 MB (the limit is 100 MiB) and sends ten bytes of it."""
    return _send_raw(asker, struct.pack(">i", 200_000_000) + b"0123456789")


@question
def length_just_over(asker: Asker) -> Any:
    """A frame one byte longer than socket.request.max.bytes allows."""
    return _send_raw(asker, struct.pack(">i", 104_857_601) + b"0123456789")


@question
def tls_hello(asker: Asker) -> Any:
    """The first bytes of a TLS handshake."""
    return _send_raw(asker, bytes.fromhex("16030100a5010000a10303") + bytes(64))


@question
def http_get(asker: Asker) -> Any:
    """An HTTP request."""
    return _send_raw(asker, b"GET / HTTP/1.1\r\n\r\n")


@question
def header_too_short(asker: Asker) -> Any:
    """A frame of two bytes: an API key and nothing else."""
    return _send_raw(asker, _framed(b"\x00\x12"))


def _client_id_answer(asker: Asker, client_id: bytes) -> Any:
    with asker.wire() as wire:
        wire.send_frame(_header(18, 0, client_id))
        answer = wire.answer("ApiVersions", 0)
        return answer if isinstance(answer, str) else {"error_code": answer["error_code"], "then": asker.alive(wire)}


@question
def client_id_not_utf8(asker: Asker) -> Any:
    """ApiVersions v0 from a client id that is not UTF-8."""
    return _client_id_answer(asker, b"\xff\xfe\x80")


@question
def client_id_long(asker: Asker) -> Any:
    """ApiVersions v0 from a client id of 32,767 bytes."""
    return _client_id_answer(asker, b"x" * 32_767)


@question
def client_id_length_negative(asker: Asker) -> Any:
    """ApiVersions v0 with a client id length of -2."""
    return _send_raw(asker, _framed(struct.pack(">hhih", 18, 0, 7, -2)))


@question
def topic_not_utf8(asker: Asker) -> Any:
    """Metadata v1 for a topic whose name is not UTF-8."""
    with asker.wire() as wire:
        wire.send_frame(_header(3, 1) + struct.pack(">ih", 1, 3) + b"\xff\xfe\x80")
        answer = wire.answer("Metadata", 1)
        if isinstance(answer, str):
            return answer
        topic = answer["topics"][0]
        return {"error_code": topic["error_code"], "name": topic["name"]}


@question
def replies_in_request_order(asker: Asker) -> Any:
    """A fetch that waits half a second, then ApiVersions, sent together: which correlation id comes first?"""
    topic = asker.topic()
    with asker.wire() as wire:
        from tests.clients.ask.fetch import fetch_fields

        wire.send_frame(wire.frame("Fetch", 11, fetch_fields(topic, 0, max_wait_ms=500)))
        wire.send_frame(wire.frame("ApiVersions", 0, {}))
        return [_correlation_id(wire), _correlation_id(wire)]


def _correlation_id(wire: Wire) -> Any:
    received = wire.receive()
    return received if isinstance(received, str) else struct.unpack_from(">i", received)[0]


@question
def unknown_tagged_field(asker: Asker) -> Any:
    """ApiVersions v3 with an unknown tagged field in header and body."""
    tagged = b"\x01\x63\x02hi"
    body = struct.pack(">hhih", 18, 3, 7, 3) + b"ask" + tagged + b"\x02a\x021" + tagged
    with asker.wire() as wire:
        wire.send_frame(body)
        received = wire.receive()
        return CLOSED if isinstance(received, str) else {"error_code": struct.unpack_from(">ih", received)[1]}
