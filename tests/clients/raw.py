"""One socket, one request, one answer: what a broker does with bytes that no client would send.

Requests are encoded by kafka-python's message classes (an encoder that is not ours), or are
plain bytes where the point is that they are wrong. An answer is a dictionary, or one of the
words `CLOSED` (the broker hung up without a reply) and `SILENCE` (nothing within the deadline).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import crc32c
from kafka.protocol import admin, consumer, metadata, producer, sasl

CLOSED = "closed"
SILENCE = "silence"
TIMEOUT_S = 60.0

Answer = dict[str, Any] | str


def message_class(name: str) -> Any:
    """The kafka-python class of a message, by Kafka's name for it."""
    for module in (admin, consumer, metadata, producer, sasl):
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


def build(kind: Any, version: int, fields: dict[str, Any]) -> Any:
    """A message from plain dictionaries and lists."""
    return kind(version=version, **{name: _value(kind._struct.fields[name], version, v) for name, v in fields.items()})


def _value(field: Any, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct_array():
        return [build(field.data_class, version, element) for element in value]
    return build(field.data_class, version, value) if field.is_struct() else value


class Wire:
    """A bare connection to a broker."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        """Send bytes behind their length."""
        self.send(struct.pack(">i", len(body)) + body)

    def receive(self) -> bytes | str:
        """The next frame without its length, or why there is none."""
        try:
            head = self._exactly(4)
            return head if isinstance(head, str) else self._exactly(struct.unpack(">i", head)[0])
        except TimeoutError:
            return SILENCE
        except ConnectionError:
            return CLOSED

    def _exactly(self, count: int) -> bytes | str:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                return CLOSED
            data += part
        return data

    def frame(self, name: str, version: int, fields: dict[str, Any], client_id: str = "ask") -> bytes:
        """A request's header and body, without the length."""
        request = build(message_class(name + "Request"), version, fields)
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id=client_id)
        return bytes(request.encode(header=True))

    def ask(self, name: str, version: int, /, **fields: Any) -> Answer:
        """Send a request, return the decoded response."""
        self.send_frame(self.frame(name, version, fields))
        return self.answer(name, version)

    def answer(self, name: str, version: int) -> Answer:
        """Decode the next frame as the response of that API and version."""
        received = self.receive()
        if isinstance(received, str):
            return received
        kind = message_class(name + "Response")
        decoded: dict[str, Any] = kind.decode(received, version=version, header=True).to_dict(json=False)
        return decoded


def batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    key: bytes | None = b"key",
    deltas: Sequence[int] | None = None,
    base_offset: int = 0,
    count: int | None = None,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    magic: int = 2,
    length: int | None = None,
    crc_change: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp_ms: int = 1_700_000_000_000,
    records: bytes | None = None,
    compress: Any = None,
) -> bytes:
    """A record batch of format 2, right unless an argument says otherwise."""
    numbers = list(deltas) if deltas is not None else list(range(len(values)))
    body = b"".join(record(delta, key, value) for delta, value in zip(numbers, values, strict=True))
    body = body if records is None else records
    body = compress(body) if compress else body
    last = last_offset_delta if last_offset_delta is not None else (numbers[-1] if numbers else -1)
    counted = struct.pack(
        ">hiqqqhii",
        attributes,
        last,
        timestamp_ms,
        timestamp_ms,
        *producer,
        len(values) if count is None else count,
    )
    crc = (crc32c.crc32c(counted + body) + crc_change) & 0xFFFFFFFF
    size = len(counted) + len(body) + 9 if length is None else length
    return struct.pack(">qiibI", base_offset, size, -1, magic, crc) + counted + body


def record(delta: int, key: bytes | None, value: bytes | None, headers: bytes = b"\x00") -> bytes:
    """One record of format 2 with a timestamp delta of 0."""
    body = b"\x00\x00" + varint(delta) + _sized(key) + _sized(value) + headers
    return varint(len(body)) + body


def legacy_message(magic: int, value: bytes = b"value") -> bytes:
    """A message set of one message in format 0 or 1."""
    import zlib

    timestamp = struct.pack(">q", 1_700_000_000_000) if magic == 1 else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def varint(number: int) -> bytes:
    """A zigzag varint of up to 64 bits."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
