"""Bounds on the memory that all connections of a broker hold together.

Theory of operation of `Budget`, which counts the bytes of requests. What a connection reads
in one go is always taken, so that small requests are answered however full the memory is;
`is_full` tells to read less in one go. A larger frame has a `Claim` and asks before each
growth. Frames that do not fit wait in the order in which they asked.

Waiting alone could lock everybody out: if many frames are half there and the memory is full,
none of them can become whole. So one claim at a time, the first that would have to wait, may
go over the limit until it has ended. The bytes in flight therefore never exceed the limit, one
whole frame, and what all connections read without asking.
"""

from collections.abc import Callable

from runnel.base.invariant import invariant


class Claim:
    """What one large frame takes, from its first bytes until it is served or its peer is gone."""

    __slots__ = ("_budget", "_granted", "_size_bytes")

    def __init__(self, budget: "Budget", granted: Callable[[], None]) -> None:
        """`granted` is called when growth that was asked for in vain has become possible and is taken."""
        self._budget = budget
        self._granted = granted
        self._size_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Take bytes that are there already."""
        self._size_bytes += size_bytes
        self._budget.take(size_bytes)

    def ask(self, size_bytes: int) -> bool:
        """Whether the frame may grow now, the bytes being taken; else `granted` is called later."""
        return self._budget.ask(self, size_bytes)

    def grant(self, size_bytes: int) -> None:
        self.take(size_bytes)
        self._granted()

    def end(self) -> None:
        """Give everything back."""
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
        """Count bytes that were read without asking."""
        self.in_flight_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.in_flight_bytes -= size_bytes
        invariant(self.in_flight_bytes >= 0, "what is given back was taken before")
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
    """The bytes of replies that peers have not read yet, beyond what a connection's write buffer may hold."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes = 0
        self._size_bytes_max = size_bytes_max

    @property
    def room_bytes(self) -> int:
        return max(0, self._size_bytes_max - self.size_bytes)
