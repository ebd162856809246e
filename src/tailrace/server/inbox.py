"""The received but not yet served frames of a connection, and the memory that they use.

It depends neither on sockets nor on handlers; `connection` asks it for buffers, for the next frame,
and whether to continue reading.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tailrace.base.limits import (
    FRAME_OVERHEAD_BYTES,
    FULL_MEMORY_READ_BYTES,
    READ_AHEAD_BYTES_MAX,
    READ_AHEAD_FRAMES_MAX,
    RECEIVE_SCRATCH_BYTES,
)
from tailrace.server.budget import Budget, Claim
from tailrace.server.frame_reader import FrameReader


class Arrived(NamedTuple):
    """A complete frame, with its claim on memory if it is large."""

    frame: bytearray
    claim: Claim | None


class Inbox:
    """The frames of one connection, complete and partial."""

    def __init__(self, reader: FrameReader, budget: Budget, granted: Callable[[], None]) -> None:
        """Start empty; `granted` is called when a frame that waited for memory has got it."""
        self._reader = reader
        self._budget = budget
        self._granted = granted
        self._queue: deque[Arrived] = deque()
        self._queued_bytes = 0
        self._claim: Claim | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def problem(self) -> str | None:
        """Why no more can be read from the client, or None."""
        return self._reader.problem

    def allow(self, size_bytes_max: int) -> None:
        """Accept frames up to that size from now on."""
        self._reader.size_bytes_max = size_bytes_max

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._reader.in_frame

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._reader.buffer(FULL_MEMORY_READ_BYTES if self._budget.is_full else RECEIVE_SCRATCH_BYTES)

    def received(self, size_bytes: int) -> bool:
        """Process the bytes written to the last `buffer`; return whether a frame is complete."""
        frames = self._reader.received(size_bytes)
        claim = self._claim
        if claim is None:
            self._budget.take(sum(map(_cost_bytes, frames)))
        elif frames:
            self._claim = None
        for frame in frames:
            self._queue.append(Arrived(frame, claim))
            self._queued_bytes += len(frame)
        if self._claim is None and self._reader.has_partial_frame:
            self._claim = Claim(self._budget, self._grow)
            self._claim.take(self._reader.partial_bytes)
        return bool(frames)

    def is_far_ahead(self, is_serving: bool) -> bool:
        """Return whether reading can wait, because enough requests are waiting."""
        if not is_serving and not self._queue:
            return False
        size_bytes = self._queued_bytes + self._reader.partial_bytes + self._reader.growth_bytes
        return len(self._queue) > READ_AHEAD_FRAMES_MAX or size_bytes > READ_AHEAD_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Whether a partial frame has memory that is not filled yet."""
        return self._reader.has_room

    def make_room(self) -> bool:
        """Return whether there is memory for the next bytes; if not, `granted` is called once there is."""
        growth_bytes = self._reader.growth_bytes
        if growth_bytes and self._claim is not None:
            if not self._claim.ask(growth_bytes):
                return False
            self._reader.grow()
        return True

    def make_room_at_once(self) -> None:
        """Take memory for the next bytes even if it is full, of a connection that cannot be paused."""
        growth_bytes = self._reader.growth_bytes
        if growth_bytes and self._claim is not None:
            self._claim.take(growth_bytes)
            self._reader.grow()

    def pop(self) -> Arrived:
        """Return the next frame; the caller releases it when it is served."""
        arrived = self._queue.popleft()
        self._queued_bytes -= len(arrived.frame)
        return arrived

    def release(self, arrived: Arrived) -> None:
        """Release the memory of a frame."""
        if arrived.claim is not None:
            arrived.claim.end()
        else:
            self._budget.give_back(_cost_bytes(arrived.frame))

    def clear(self) -> None:
        """Release all memory, because the client has disconnected."""
        while self._queue:
            self.release(self.pop())
        if self._claim is not None:
            claim, self._claim = self._claim, None
            claim.end()

    def _grow(self) -> None:
        self._reader.grow()
        self._granted()


def _cost_bytes(frame: bytearray) -> int:
    return len(frame) + FRAME_OVERHEAD_BYTES
