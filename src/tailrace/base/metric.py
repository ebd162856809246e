"""The metrics of a broker: counters, gauges and histograms, independent of an output format.

A counter and a histogram are updated; a gauge is read on demand and costs nothing until then. Where Kafka has a
metric, the name is the one by which Prometheus knows it. Everything here belongs to one event loop.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from tailrace.base.invariant import invariant

_NAME = re.compile(r"[a-z_][a-z0-9_]*")

Labels = tuple[str, ...]
Reading = Iterable[tuple[Labels, float]]
"""The values of a gauge, by label values."""


class Sample(NamedTuple):
    """One value of a metric: the suffix of its name, its labels, and the number."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Metric(Protocol):
    """A named metric."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """`counter`, `gauge` or `histogram`."""
        ...

    @property
    def description(self) -> str: ...

    def samples(self) -> Iterator[Sample]:
        """Yield the current values. They may change between two steps of the iteration."""
        ...


class Counter:
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, description: str, label_names: Sequence[str] = ()) -> None:
        self.name = name
        self.description = description
        self._label_names = tuple(label_names)
        # A counter without labels exists from the start, so that its first increment is visible.
        self._values: dict[Labels, int] = {} if label_names else {(): 0}

    def add(self, count: int = 1, labels: Labels = ()) -> None:
        """Increase the counter."""
        self._values[labels] = self._values.get(labels, 0) + count

    def samples(self) -> Iterator[Sample]:
        for labels, value in list(self._values.items()):
            yield Sample("", tuple(zip(self._label_names, labels, strict=True)), value)


class Gauge:
    """A number that is read on demand."""

    kind = "gauge"

    def __init__(
        self, name: str, description: str, read: Callable[[], Reading], label_names: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.description = description
        self._read = read
        self._label_names = tuple(label_names)

    def samples(self) -> Iterator[Sample]:
        for labels, value in self._read():
            yield Sample("", tuple(zip(self._label_names, labels, strict=True)), value)


class Histogram:
    """The number of observed values up to each bound."""

    kind = "histogram"

    def __init__(self, name: str, description: str, bounds: Sequence[float]) -> None:
        invariant(list(bounds) == sorted(set(bounds)), f"the bounds of {name} do not rise")
        self.name = name
        self.description = description
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        counts, total = tuple(self._counts), self._sum
        count = 0
        for bound, more in zip((*self._bounds, float("inf")), counts, strict=True):
            count += more
            yield Sample("_bucket", (("le", "+Inf" if bound == float("inf") else f"{bound:g}"),), count)
        yield Sample("_sum", (), total)
        yield Sample("_count", (), count)


class Registry:
    """All metrics of a broker, by unique name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, description: str, label_names: Sequence[str] = ()) -> Counter:
        """Create a counter."""
        counter = Counter(name, description, label_names)
        self._add(counter)
        return counter

    def gauge(self, name: str, description: str, read: Callable[[], Reading], label_names: Sequence[str] = ()) -> None:
        """Create a gauge whose values `read` returns."""
        self._add(Gauge(name, description, read, label_names))

    def histogram(self, name: str, description: str, bounds: Sequence[float]) -> Histogram:
        """Create a histogram with these bounds and a last bucket without one."""
        histogram = Histogram(name, description, bounds)
        self._add(histogram)
        return histogram

    def metrics(self) -> list[Metric]:
        """Return all metrics in the order of their creation."""
        return list(self._metrics.values())

    def _add(self, metric: Metric) -> None:
        invariant(_NAME.fullmatch(metric.name) is not None, f"{metric.name!r} is not a valid metric name")
        invariant(metric.name not in self._metrics, f"the metric {metric.name} is registered twice")
        self._metrics[metric.name] = metric
