"""Bounds on the memory that all connections of a broker hold together.

Theory of operation of `Budget`, which counts the bytes of requests. The bytes of a single read are
always accepted, so that small requests are answered however full the memory is; `is_full` asks
connections to read less at once. A larger frame has a `Claim`, which asks for memory before the frame
grows. Frames that do not fit wait in the order in which they asked.

Waiting alone could block all connections: if many frames have arrived in part and the memory is full,
none of them can be completed. So one claim at a time, the first that would have to wait, may exceed the
limit until it ends. The bytes in flight therefore never exceed the limit plus one whole frame plus
what all connections read without asking.
"""

from collections.abc import Callable

from tailrace.base.invariant import invariant


class Claim:
    """The memory of one large frame, from its first bytes until it is served or its client disconnects."""

    __slots__ = ("_budget", "_granted", "_size_bytes")

    def __init__(self, budget: "Budget", granted: Callable[[], None]) -> None:
        """Start without memory; `granted` is called when a growth that had to wait has got its memory."""
        self._budget = budget
        self._granted = granted
        self._size_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Count bytes that have already arrived."""
        self._size_bytes += size_bytes
        self._budget.take(size_bytes)

    def ask(self, size_bytes: int) -> bool:
        """Take memory for the frame to grow, and return whether there was enough; if not, `granted` is called later."""
        return self._budget.ask(self, size_bytes)

    def grant(self, size_bytes: int) -> None:
        self.take(size_bytes)
        self._granted()

    def end(self) -> None:
        """Release all memory."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        self._budget.leave(self, size_bytes)


class Budget:
    """Counts bytes in flight; claims over the limit wait until others have ended."""

    def __init__(self, size_bytes_max: int) -> None:
        self.in_flight_bytes = 0
        self._size_bytes_max = size_bytes_max
        self._waiting: dict[Claim, int] = {}
        self._overdrawn: Claim | None = None

    @property
    def is_full(self) -> bool:
        return self.in_flight_bytes >= self._size_bytes_max

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def take(self, size_bytes: int) -> None:
        """Count bytes that a connection read without asking."""
        self.in_flight_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.in_flight_bytes -= size_bytes
        invariant(self.in_flight_bytes >= 0, "bytes are released only after they were taken")
        if self._waiting:
            self._grant_waiting()

    def ask(self, claim: Claim, size_bytes: int) -> bool:
        if claim in self._waiting:
            return False
        if claim is not self._overdrawn and (self._waiting or not self._admits(claim, size_bytes)):
            self._waiting[claim] = size_bytes
            return False
        claim.take(size_bytes)
        return True

    def leave(self, claim: Claim, size_bytes: int) -> None:
        self._waiting.pop(claim, None)
        if claim is self._overdrawn:
            self._overdrawn = None
        self.give_back(size_bytes)

    def _admits(self, claim: Claim, size_bytes: int) -> bool:
        if self.in_flight_bytes + size_bytes <= self._size_bytes_max:
            return True
        if self._overdrawn is None:
            self._overdrawn = claim
        return claim is self._overdrawn

    def _grant_waiting(self) -> None:
        while self._waiting:
            claim, size_bytes = next(iter(self._waiting.items()))
            if not self._admits(claim, size_bytes):
                return
            del self._waiting[claim]
            claim.grant(size_bytes)


class Backlog:
    """The bytes of replies that clients have not read yet, beyond the limit of a connection's write buffer."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes = 0
        self._size_bytes_max = size_bytes_max

    @property
    def room_bytes(self) -> int:
        return max(0, self._size_bytes_max - self.size_bytes)
