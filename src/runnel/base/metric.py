"""What a broker counts and measures, for whoever wants to look, in whatever format.

A counter and a histogram are told; a gauge is asked, and costs nothing until then. Names are those under which
Kafka's metrics are known to Prometheus, where Kafka has them. Everything here belongs to one event loop.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from runnel.base.invariant import invariant

_NAME = re.compile(r"[a-z_][a-z0-9_]*")

Labels = tuple[str, ...]
Reading = Iterable[tuple[Labels, float]]
"""The values of a gauge by the values of its labels."""


class Sample(NamedTuple):
    """One value of a metric: what is added to its name, the labels by name, and the number."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Metric(Protocol):
    """Something with a name that has values."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """`counter`, `gauge` or `histogram`."""
        ...

    @property
    def description(self) -> str: ...

    def samples(self) -> Iterator[Sample]:
        """The values at this moment; one who takes pauses between two of them may see them change."""
        ...


class Counter:
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, description: str, label_names: Sequence[str] = ()) -> None:
        self.name = name
        self.description = description
        self._label_names = tuple(label_names)
        # One without labels is there from the start, so that its first step is seen as one.
        self._values: dict[Labels, int] = {} if label_names else {(): 0}

    def add(self, count: int = 1, labels: Labels = ()) -> None:
        """Count so many more."""
        self._values[labels] = self._values.get(labels, 0) + count

    def samples(self) -> Iterator[Sample]:
        for labels, value in list(self._values.items()):
            yield Sample("", tuple(zip(self._label_names, labels, strict=True)), value)


class Gauge:
    """A number that is looked up when somebody asks."""

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
    """How often values up to some bounds were seen."""

    kind = "histogram"

    def __init__(self, name: str, description: str, bounds: Sequence[float]) -> None:
        invariant(list(bounds) == sorted(set(bounds)), f"the bounds of {name} do not rise")
        self.name = name
        self.description = description
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Take a value in."""
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
    """All metrics of a broker, each once."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, description: str, label_names: Sequence[str] = ()) -> Counter:
        """Make a counter."""
        counter = Counter(name, description, label_names)
        self._add(counter)
        return counter

    def gauge(self, name: str, description: str, read: Callable[[], Reading], label_names: Sequence[str] = ()) -> None:
        """Make a gauge, which `read` gives the values of."""
        self._add(Gauge(name, description, read, label_names))

    def histogram(self, name: str, description: str, bounds: Sequence[float]) -> Histogram:
        """Make a histogram with these bounds and one more, which has no end."""
        histogram = Histogram(name, description, bounds)
        self._add(histogram)
        return histogram

    def metrics(self) -> list[Metric]:
        """All of them, in the order in which they were made."""
        return list(self._metrics.values())

    def _add(self, metric: Metric) -> None:
        invariant(_NAME.fullmatch(metric.name) is not None, f"{metric.name!r} is no name for a metric")
        invariant(metric.name not in self._metrics, f"there are two metrics named {metric.name}")
        self._metrics[metric.name] = metric
