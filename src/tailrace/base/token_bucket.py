"""A token bucket, which limits a rate."""


class TokenBucket:
    """A debt that is paid off at a rate. An amount is always accepted; the debt says how long to pause afterwards.

    The debt is an amount, such as bytes, and not a time, so a changed rate takes effect at once, also for what was
    taken before. Below zero it is a credit, which lets an idle user take more at once. A bucket knows neither the time
    nor the rate: every call brings them.
    """

    __slots__ = ("debt", "paid_at_ms")

    def __init__(self, paid_at_ms: float) -> None:
        """Start without debt; an earlier time than the present gives the credit of that time."""
        self.debt = 0.0
        self.paid_at_ms = paid_at_ms

    def pay(self, now_ms: float, rate: float, credit_max: float) -> None:
        """Reduce the debt by what `rate` per second allowed since the last call, down to the largest credit."""
        paid = (now_ms - self.paid_at_ms) / 1000 * rate
        self.debt = max(self.debt - paid, -credit_max)
        self.paid_at_ms = now_ms

    def take(self, amount: float) -> None:
        """Add an amount to the debt."""
        self.debt += amount

    def rest_ms(self, rate: float) -> float:
        """Return for how many milliseconds to pause, so that the rate holds."""
        return max(0.0, self.debt / rate * 1000)
