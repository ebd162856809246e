"""The clocks of a simulated broker, which may be skewed and run at a wrong rate."""

from tailrace.sim.determinism import EPOCH_S
from tailrace.sim.loop import VirtualLoop


class SimClock:
    """The loop's time with an offset and a rate. The wall clock may also jump."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0, rate: float = 1.0) -> None:
        self.skew_ms = skew_ms
        self._loop = loop
        self._rate = rate

    def now_ms(self) -> int:
        return int((EPOCH_S + self._loop.time()) * 1000) + self.skew_ms

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * self._rate * 1000)
