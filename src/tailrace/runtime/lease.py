"""The lease of a leader: until when no other broker can have been elected in its place."""

from collections.abc import Callable

from tailrace.base.clock import Clock


class Lease:
    """The session with the metadata store, checked by a leader before it appends or acknowledges a record.

    While the session certainly lives, so does this broker's registration, and no other broker leads its partitions. A
    broker that was paused, or is cut off from the store, notices it by its own clock.
    """

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock, until_ms: Callable[[], float]) -> None:
        """`until_ms` returns the time of the monotonic clock until which the session certainly lives."""
        self._clock = clock
        self._until_ms = until_ms

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic_ms() < self._until_ms()
