"""The lease: the time until which a session with ZooKeeper certainly exists.

The leader of an ensemble ends a session if it has not heard of it for the session timeout. The server
of a client reports its clients' activity to the leader when the leader asks, which is every half
tick. A server that lost its leader still answers reads and pings for a while, and the leader learns
of neither. So the lease needs two things. A heartbeat is a write, whose reply comes only after a
majority has stored it. And the reply proves only that an earlier heartbeat reached the leader: one that
is at least half a tick older, within which the leader has asked. Clients do not know the tick, but a
session timeout has at least two of them. A connect request, however, reaches the leader at once.

The leader measures the timeout with its own clock, and no two clocks run at the same speed. So the lease
is shorter than the timeout by more than two clocks differ.
"""

from collections import deque

HEARTBEATS_PER_TIMEOUT = 6
_HALF_TICK_PER_TIMEOUT_MAX = 1 / 4
_DRIFT_MAX = 0.02
_OVER = float("-inf")


class Lease:
    """The latest activity that the leader has certainly seen, and the lease that follows from it."""

    def __init__(self) -> None:
        self._timeout_ms = 0.0
        self._seen_ms = _OVER
        self._answered: deque[float] = deque()

    @property
    def until_ms(self) -> float:
        return self._seen_ms + self._timeout_ms * (1 - _DRIFT_MAX)

    def connect(self, sent_ms: float, timeout_ms: float) -> None:
        """Start the lease of a session that a request sent at this time created or resumed."""
        self._timeout_ms = timeout_ms
        self._seen_ms = sent_ms
        self._answered.clear()

    def beat(self, sent_ms: float) -> None:
        """Extend the lease after the reply to a heartbeat sent at this time."""
        self._answered.append(sent_ms)
        while self._answered[0] <= sent_ms - self._timeout_ms * _HALF_TICK_PER_TIMEOUT_MAX:
            self._seen_ms = max(self._seen_ms, self._answered.popleft())

    def end(self) -> None:
        """End the lease, because the session has ended."""
        self._seen_ms = _OVER
        self._answered.clear()
