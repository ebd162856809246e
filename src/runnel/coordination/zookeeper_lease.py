"""How long a session with ZooKeeper certainly lives.

The leader of an ensemble ends a session when it has not heard of it for the session's
time-out. A client's server tells the leader of its clients' signs of life whenever the
leader asks, which is every half tick; a server that was cut off from the leader goes on
answering reads and pings for a while, and the leader hears of neither. So two things have
to come together. A heartbeat is a write, which is answered only after a majority has it.
And it is an earlier heartbeat that its answer proves to have reached the leader: one that
is older by half a tick, in which the leader has asked. The tick is not told to clients,
but a time-out has at least two of them. Connecting, however, asks the leader at once.

The leader counts the time-out by its own clock, and no two clocks run at the same speed. So
the lease is shorter than the time-out by more than two of them run apart.
"""

from collections import deque

HEARTBEATS_PER_TIMEOUT = 6
_HALF_TICK_PER_TIMEOUT_MAX = 1 / 4
_DRIFT_MAX = 0.02
_OVER = float("-inf")


class Lease:
    """The newest sign of life that the leader has certainly seen, and what follows from it."""

    def __init__(self) -> None:
        self._timeout_ms = 0.0
        self._seen_ms = _OVER
        self._answered: deque[float] = deque()

    @property
    def until_ms(self) -> float:
        return self._seen_ms + self._timeout_ms * (1 - _DRIFT_MAX)

    def connect(self, sent_ms: float, timeout_ms: float) -> None:
        """A session was opened, or found again, by a request that was sent at this time."""
        self._timeout_ms = timeout_ms
        self._seen_ms = sent_ms
        self._answered.clear()

    def beat(self, sent_ms: float) -> None:
        """A heartbeat that was sent at this time has been answered."""
        self._answered.append(sent_ms)
        while self._answered[0] <= sent_ms - self._timeout_ms * _HALF_TICK_PER_TIMEOUT_MAX:
            self._seen_ms = max(self._seen_ms, self._answered.popleft())

    def end(self) -> None:
        """The session is over."""
        self._seen_ms = _OVER
        self._answered.clear()
