"""Places in a log, as people name them."""

from datetime import UTC, datetime, timedelta

import pytest

from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.place import Place, PlaceName, read_place, read_reset

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT_MS = 1_772_366_400_000
NOW_S = 1_000_000.0


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("earliest", Place(None, EARLIEST)),
        ("beginning", Place(None, EARLIEST)),
        ("latest", Place(None, LATEST)),
        ("end", Place(None, LATEST)),
        (0, Place(0)),
        (17, Place(17)),
        (MOMENT, Place(None, MOMENT_MS)),
        ("2026-03-01T12:00:00+00:00", Place(None, MOMENT_MS)),
        ("-1h", Place(None, 996_400_000)),
        ("-250ms", Place(None, 999_999_750)),
        (timedelta(minutes=1), Place(None, 999_940_000)),
        (timedelta(minutes=-1), Place(None, 999_940_000)),
    ],
)
def test_a_place_has_many_names(name: PlaceName, place: Place) -> None:
    assert read_place(name, NOW_S) == place


@pytest.mark.parametrize("name", ["tomorrow", "", "-1y", -1])
def test_what_names_no_place_is_refused_with_what_does(name: PlaceName) -> None:
    with pytest.raises(ValueError, match='"earliest", "latest", an offset'):
        read_place(name)


@pytest.mark.parametrize("name", [None, True, 1.5])
def test_other_types_are_refused(name: object) -> None:
    with pytest.raises(TypeError, match="not a place in a log"):
        read_place(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("earliest", Place(None, EARLIEST)),
        ("latest", Place(None, LATEST)),
        ("none", None),
        ("by_duration:PT1H30M", Place(None, ago_ms=5_400_000)),
        ("by_duration:P2DT0.5S", Place(None, ago_ms=172_800_500)),
        ("by_duration:pt10m", Place(None, ago_ms=600_000)),
        ("by_duration:P1D", Place(None, ago_ms=86_400_000)),
        ("by_duration:PT1H-30M", Place(None, ago_ms=1_800_000)),
        ("by_duration:-PT-5S", Place(None, ago_ms=5_000)),
        ("by_duration:PT0S", Place(None, ago_ms=0)),
    ],
)
def test_where_to_begin_is_said_as_kafka_says_it(name: str, place: Place | None) -> None:
    """The durations are those that `java.time.Duration.parse` takes."""
    assert read_reset(name) == place


@pytest.mark.parametrize(
    "duration", ["", "P", "PT", "P1DT", "1H", "PT1D", "P1H", "P1Y", "P1W", "PT1.5H", "-PT5S", "PT-5S", "PT 5S", "PT5S "]
)
def test_what_java_takes_for_no_duration_or_kafka_for_a_negative_one_is_refused(duration: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        read_reset(f"by_duration:{duration}")


def test_a_time_ago_goes_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(None, ago_ms=250)
    monkeypatch.setattr("time.time", lambda: 2.0)
    assert place.time_ms == 1_750
    monkeypatch.setattr("time.time", lambda: 3.0)
    assert place.time_ms == 2_750
    monkeypatch.setattr("time.time", lambda: 0.1)
    assert place.time_ms == 0
