"""Memory for large replies, used again when nobody looks at it any more.

Fresh memory is dear: the interpreter fills it with zeros and the kernel maps it page by page, which
together cost as much as receiving the bytes. Records are decoded into memory of their own, so a
reply's is free as soon as the last view of it is gone, and the reference count tells when.
"""

import sys

from runnel.base.limits import FRAME_POOL_BYTES_MAX, FRAME_POOLED_BYTES_MIN

_STEP_BYTES = 1024 * 1024
_FREE_REFERENCES = 3  # the list's, the loop's and that of getrefcount itself; every view would be one more


class FramePool:
    """The large frames of one connection."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, length: int) -> bytearray | memoryview:
        """Memory for a frame of this length, whose content is anything."""
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
            kept -= len(self._buffers.pop(0))  # those who still look at it keep it
        if size <= FRAME_POOL_BYTES_MAX:
            self._buffers.append(buffer)
        return buffer
