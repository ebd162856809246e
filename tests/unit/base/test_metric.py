"""What is counted, asked and measured, before any format."""

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.base.metric import Registry, Sample


def test_a_counter_without_labels_is_there_before_it_counts() -> None:
    registry = Registry()
    counter = registry.counter("requests", "Requests.")
    by_kind = registry.counter("errors", "Errors.", ("kind",))
    assert list(counter.samples()) == [Sample("", (), 0)]
    assert list(by_kind.samples()) == []
    counter.add()
    counter.add(2)
    by_kind.add(labels=("late",))
    by_kind.add(4, ("lost",))
    assert list(counter.samples()) == [Sample("", (), 3)]
    assert list(by_kind.samples()) == [Sample("", (("kind", "late"),), 1), Sample("", (("kind", "lost"),), 4)]


def test_a_gauge_is_asked_when_somebody_looks() -> None:
    registry = Registry()
    asked: list[int] = []

    def read() -> list[tuple[tuple[str, ...], float]]:
        asked.append(1)
        return [(("a", "0"), 5.0)]

    registry.gauge("lag", "Lag.", read, ("group", "partition"))
    assert asked == []
    (gauge,) = registry.metrics()
    assert list(gauge.samples()) == [Sample("", (("group", "a"), ("partition", "0")), 5.0)]
    assert asked == [1]


def test_a_histogram_counts_values_up_to_each_bound() -> None:
    histogram = Registry().histogram("load_ms", "Loading.", (1, 2.5))
    for value in (0.5, 1, 2, 100):
        histogram.observe(value)
    assert list(histogram.samples()) == [
        Sample("_bucket", (("le", "1"),), 2),
        Sample("_bucket", (("le", "2.5"),), 3),
        Sample("_bucket", (("le", "+Inf"),), 4),
        Sample("_sum", (), 103.5),
        Sample("_count", (), 4),
    ]


def test_a_name_is_legal_and_used_once() -> None:
    registry = Registry()
    registry.counter("a_b", "One.")
    with pytest.raises(InvariantError, match="metric a_b is registered twice"):
        registry.gauge("a_b", "Another.", list)
    with pytest.raises(InvariantError, match="not a valid metric name"):
        registry.counter("a-b", "One.")
    with pytest.raises(InvariantError, match="do not rise"):
        registry.histogram("h", "One.", (2, 1))
    assert [metric.name for metric in registry.metrics()] == ["a_b"]
