"""Memory for large replies, which is reused when no view of it is left.

New memory is expensive: the interpreter fills it with zeros and the kernel maps it page by page, which
together cost as much as receiving the bytes. Records are decoded into their own memory, so that of a
reply is free when its reference count shows that the last view of it is gone.
"""

import sys

from tailrace.base.limits import FRAME_POOL_BYTES_MAX, FRAME_POOLED_BYTES_MIN

_STEP_BYTES = 1024 * 1024
_FREE_REFERENCES = 3  # those of the list, the loop and getrefcount itself; every view adds one


class FramePool:
    """The large frames of one connection."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, length: int) -> bytearray | memoryview:
        """Return memory for a frame of this length, with arbitrary content."""
        if length < FRAME_POOLED_BYTES_MIN:
            return bytearray(length)
        for buffer in self._buffers:
            if length <= len(buffer) and sys.getrefcount(buffer) == _FREE_REFERENCES:
                return memoryview(buffer)[:length]
        return memoryview(self._new(length))[:length]

    def _new(self, length: int) -> bytearray:
        size = -(-length // _STEP_BYTES) * _STEP_BYTES
        buffer = bytearray(size)
        kept = sum(map(len, self._buffers))
        while self._buffers and kept + size > FRAME_POOL_BYTES_MAX:
            kept -= len(self._buffers.pop(0))  # its views keep it alive
        if size <= FRAME_POOL_BYTES_MAX:
            self._buffers.append(buffer)
        return buffer
