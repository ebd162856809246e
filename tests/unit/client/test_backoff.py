"""Waits before another attempt."""

from tailrace.client.backoff import Backoff, Deadline


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1000, uniform=lambda _low, _high: 1.0)
    assert [backoff.wait_s(count) for count in (1, 2, 3, 4, 5, 1000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_waits_differ_a_little() -> None:
    seen: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        seen.append((low, high))
        return high

    assert Backoff(100, 1000, uniform).wait_s(1) == 0.12
    assert seen == [(0.8, 1.2)]


def test_a_deadline_never_leaves_less_than_nothing() -> None:
    now_s = 10.0
    deadline = Deadline(500, lambda: now_s)
    assert (deadline.left_s, deadline.is_over) == (0.5, False)
    now_s = 11.0
    assert (deadline.left_s, deadline.is_over) == (0.0, True)
