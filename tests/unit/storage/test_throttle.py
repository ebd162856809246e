"""Bytes per second, by rest."""

from tests.unit.sample import ManualClock

from tailrace.base.limits import THROTTLE_CREDIT_MS, THROTTLE_REST_MS_MIN
from tailrace.storage.throttle import Throttle


def test_whoever_takes_more_than_the_rate_rests() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    assert throttle.take(100) == 0.1
    assert throttle.take(400) == 0.5
    clock.time_ms += 500
    assert throttle.take(1000) == 1.0


def test_what_was_missed_by_waking_late_is_caught_up_with() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    assert throttle.take(100) == 0.1
    clock.time_ms += 200
    assert throttle.take(100) == 0.0
    assert throttle.take(100) == 0.1


def test_a_long_pause_saves_little_up() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    throttle.take(100)
    clock.time_ms += 1_000_000
    assert throttle.take(1000) == (1000 - THROTTLE_CREDIT_MS) / 1000


def test_short_rests_become_one() -> None:
    throttle = Throttle(ManualClock(), lambda: 1000)
    assert throttle.take(THROTTLE_REST_MS_MIN - 1) == 0.0
    assert throttle.take(THROTTLE_REST_MS_MIN - 1) == (2 * THROTTLE_REST_MS_MIN - 2) / 1000


def test_a_rate_that_changes_counts_for_what_was_taken_before() -> None:
    """With `--throttle 1` a follower was in debt for minutes, and a raised rate changed nothing until then."""
    rate = 1.0
    throttle = Throttle(ManualClock(), lambda: rate)
    assert throttle.take(10_000) == 10_000
    rate = 50_000_000.0
    assert throttle.rest_s() == 0.0
    rate = 1000.0
    assert throttle.rest_s() == 10.0
    rate = 1.7976931348623157e308
    assert throttle.take(10**9) == 0.0


def test_over_time_no_more_than_the_rate_is_taken() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    began_ms = clock.time_ms
    for _ in range(1000):
        clock.time_ms += round(throttle.take(7) * 1000) + 3
    assert clock.time_ms - began_ms >= 7000 - THROTTLE_CREDIT_MS
