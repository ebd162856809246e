"""How long a broker may be sure that nobody else was elected in its place."""

from collections.abc import Callable

from runnel.base.clock import Clock


class Lease:
    """The session with the metadata store, as a leader looks at it before it takes or acknowledges a record.

    While the session certainly lives, so does this broker's registration, and nobody else leads what it leads. A
    broker that was stopped for a while, or is cut off from the store, finds out by its own clock.
    """

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock, until_ms: Callable[[], float]) -> None:
        """`until_ms` is the time of the monotonic clock up to which the session certainly lives."""
        self._clock = clock
        self._until_ms = until_ms

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic_ms() < self._until_ms()
