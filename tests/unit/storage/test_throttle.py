"""Bytes per second, by rest."""

from tests.unit.storage.conftest import ManualClock

from runnel.storage.throttle import Throttle


def test_whoever_takes_more_than_the_rate_rests() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    assert throttle.take(100) == 0.1
    assert throttle.take(400) == 0.5
    clock.time_ms += 500
    assert throttle.take(1000) == 1.0


def test_a_pause_saves_nothing_up() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, lambda: 1000)
    throttle.take(100)
    clock.time_ms += 1_000_000
    assert throttle.take(100) == 0.1


def test_the_rate_may_change() -> None:
    rates = [1000.0, 1.7976931348623157e308]
    throttle = Throttle(ManualClock(), lambda: rates.pop(0))
    assert throttle.take(100) == 0.1
    assert throttle.take(10**9) == 0.1
