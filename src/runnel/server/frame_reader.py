"""Cutting a byte stream into frames: a 4-byte length, then as many bytes.

It knows no sockets: it says where the next bytes should be put and, told how many came,
returns the frames that are complete. Small frames arrive in a scratch buffer shared by all
connections and are copied out; the rest of a large frame is received straight into the
memory that its records will be written to disk from.

The memory of a frame grows with what has arrived, not with what its length claims, so a
peer that announces 100 MiB and stays silent costs a few bytes. Growing is left to the
caller, who may have to wait for memory.
"""

from struct import Struct

from runnel.base.invariant import invariant
from runnel.base.limits import FRAME_FIRST_BYTES_MIN, FRAME_GROWTH_FACTOR

_LENGTH = Struct(">i")


class FrameReader:
    """One connection's place in its stream."""

    __slots__ = ("_filled", "_frame", "_length", "_prefix", "_scratch", "_size_bytes_max", "problem")

    def __init__(self, size_bytes_max: int, scratch: memoryview) -> None:
        self.problem: str | None = None
        """Why the stream cannot be read any further. The frames before are as good as any."""
        self._size_bytes_max = size_bytes_max
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
        """Whether the peer has begun a frame and not finished it."""
        return self._frame is not None or bool(self._prefix)

    @property
    def has_partial_frame(self) -> bool:
        """Whether the length of a frame is known and not all of its bytes are there, perhaps none."""
        return self._frame is not None

    @property
    def has_room(self) -> bool:
        """Whether the next bytes of a large frame have their place."""
        return self._frame is not None and self._filled < len(self._frame)

    @property
    def growth_bytes(self) -> int:
        """How much more memory the frame needs before another byte of it can be read; mostly 0."""
        if self._frame is None or self.has_room:
            return 0
        return min(self._length, max(self._filled, FRAME_FIRST_BYTES_MIN) * FRAME_GROWTH_FACTOR) - self._filled

    def grow(self) -> None:
        """Take that memory."""
        invariant(self._frame is not None, "a frame has begun")
        grown = bytearray(self._filled + self.growth_bytes)
        grown[: self._filled] = self._frame or b""
        self._frame = grown

    def buffer(self, size_bytes_max: int) -> memoryview:
        """Where the next bytes of the stream go, at most so many where no memory is taken for them yet."""
        if self._frame is None:
            return self._scratch[:size_bytes_max]
        invariant(self._filled < len(self._frame), "a frame grows before it is read on")
        return memoryview(self._frame)[self._filled :]

    def received(self, size_bytes: int) -> list[bytearray]:
        """Take in the bytes written to the last `buffer`; the frames they complete."""
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
            if not 0 < length <= self._size_bytes_max:
                self.problem = f"a frame of {length} bytes; the limit is {self._size_bytes_max}"
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
        # Without room for more: whoever wants that asks first.
        self._length = length
        self._filled = len(data)
        self._frame = bytearray(data)
