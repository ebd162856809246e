"""The reader that splits a byte stream into frames: a 4-byte length, then that many bytes.

It does not depend on sockets: it returns the buffer for the next bytes and, given their number, the
frames that are complete. Small frames arrive in a scratch buffer shared by all connections and are
copied; the rest of a large frame is received directly into the memory from which its records will
be written to disk.

The memory of a frame grows with the bytes that have arrived, not with the length that it claims, so a
client that announces 100 MiB and sends nothing costs a few bytes. The caller grows the memory, and
may have to wait for it.
"""

from struct import Struct

from tailrace.base.invariant import invariant
from tailrace.base.limits import FRAME_FIRST_BYTES_MIN, FRAME_GROWTH_FACTOR

_LENGTH = Struct(">i")
_TLS_HANDSHAKE = b"\x16\x03"  # the record type and the major version, which all versions of TLS send first
_HTTP_METHODS = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"})


class FrameReader:
    """The position of one connection in its stream."""

    __slots__ = ("_filled", "_frame", "_length", "_prefix", "_scratch", "problem", "size_bytes_max")

    def __init__(self, size_bytes_max: int, scratch: memoryview) -> None:
        self.problem: str | None = None
        """Why the stream cannot be read further. The frames before that are valid."""
        self.size_bytes_max = size_bytes_max
        self._scratch = scratch
        self._prefix = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._length = 0

    @property
    def partial_bytes(self) -> int:
        """Memory held by a frame that is not complete yet."""
        return len(self._frame) if self._frame is not None else 0

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._frame is not None or bool(self._prefix)

    @property
    def has_partial_frame(self) -> bool:
        """Whether the length of a frame is known and the frame is not complete."""
        return self._frame is not None

    @property
    def has_room(self) -> bool:
        """Whether there is memory for the next bytes of a large frame."""
        return self._frame is not None and self._filled < len(self._frame)

    @property
    def growth_bytes(self) -> int:
        """The memory that the frame needs before more of it can be read; usually 0."""
        if self._frame is None or self.has_room:
            return 0
        return min(self._length, max(self._filled, FRAME_FIRST_BYTES_MIN) * FRAME_GROWTH_FACTOR) - self._filled

    def grow(self) -> None:
        """Allocate that memory."""
        invariant(self._frame is not None, "a frame has begun")
        grown = bytearray(self._filled + self.growth_bytes)
        grown[: self._filled] = self._frame or b""
        self._frame = grown

    def buffer(self, size_bytes_max: int) -> memoryview:
        """Return the buffer for the next bytes; outside a large frame it has at most `size_bytes_max`."""
        if self._frame is None:
            return self._scratch[:size_bytes_max]
        invariant(self._filled < len(self._frame), "a frame grows before it is read on")
        return memoryview(self._frame)[self._filled :]

    def received(self, size_bytes: int) -> list[bytearray]:
        """Process the bytes written to the last `buffer`, and return the frames that they complete."""
        if self._frame is None:
            data = self._scratch[:size_bytes]
            return self._cut(self._prefix + data if self._prefix else data)
        self._filled += size_bytes
        if self._filled < self._length:
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _cut(self, data: memoryview | bytes) -> list[bytearray]:
        frames: list[bytearray] = []
        position, end = 0, len(data)
        self._prefix = b""
        while end - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 < length <= self.size_bytes_max:
                self.problem = _explain(length, self.size_bytes_max)
                return frames
            position += _LENGTH.size
            if end - position < length:
                self._begin(length, data[position:])
                return frames
            frames.append(bytearray(data[position : position + length]))
            position += length
        self._prefix = bytes(data[position:])
        return frames

    def _begin(self, length: int, data: memoryview | bytes) -> None:
        # Without memory for more, which the caller has to ask for.
        self._length = length
        self._filled = len(data)
        self._frame = bytearray(data)


def _explain(length: int, size_bytes_max: int) -> str:
    """Return why a frame of that length is refused; often it is the start of another protocol."""
    start = _LENGTH.pack(length)
    if start.startswith(_TLS_HANDSHAKE):
        return "the client speaks TLS on a plaintext listener"
    if start in _HTTP_METHODS:
        return "the client speaks HTTP on a listener of the Kafka protocol"
    return f"a frame of {length} bytes; the limit is {size_bytes_max}"
