"""A bound on the request bytes that all connections together hold in memory."""

from collections import deque
from collections.abc import Callable


class Budget:
    """Counts bytes in flight; those over the limit wait until others have finished."""

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._waiting: deque[Callable[[], None]] = deque()
        self.in_flight_bytes = 0

    def has_room(self, size_bytes: int, held_bytes: int = 0) -> bool:
        """Whether `size_bytes` more may be taken by one who holds `held_bytes`.

        Somebody who holds everything that is in flight always may: nobody else could make room.
        """
        others = self.in_flight_bytes - held_bytes
        return others == 0 or self.in_flight_bytes + size_bytes <= self._size_bytes_max

    def take(self, size_bytes: int) -> None:
        self.in_flight_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.in_flight_bytes -= size_bytes
        # Each one woken looks again whether there is room, and waits again if not.
        for _ in range(len(self._waiting)):
            if self.in_flight_bytes > self._size_bytes_max:
                return
            self._waiting.popleft()()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` once when there may be room."""
        self._waiting.append(resume)
