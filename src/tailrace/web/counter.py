"""Counts of answered requests."""

from collections import Counter
from collections.abc import Iterator


class RequestCounters:
    """Counts answered requests by route, method and status, and the time that they took."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.seconds: Counter[tuple[str, str]] = Counter()

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.counts[route, method, status] += 1
        self.seconds[route, method] += seconds  # type: ignore[assignment]  # a Counter of floats

    def lines(self, prefix: str) -> Iterator[str]:
        """Iterate over the counts in the text format of Prometheus."""
        yield f"# TYPE {prefix}_requests_total counter"
        for (route, method, status), count in sorted(self.counts.items()):
            yield f'{prefix}_requests_total{{route="{route}",method="{method}",status="{status}"}} {count}'
        yield f"# TYPE {prefix}_request_seconds_total counter"
        for (route, method), seconds in sorted(self.seconds.items()):
            yield f'{prefix}_request_seconds_total{{route="{route}",method="{method}"}} {seconds:.6f}'
