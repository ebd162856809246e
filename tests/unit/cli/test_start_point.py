"""Where to begin, as people say it."""

from datetime import datetime

import pytest

from tailrace.cli.start_point import StartPoint, _clamp, parse_start_point

NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", StartPoint(word="beginning")),
        ("end", StartPoint(word="end")),
        ("0", StartPoint(offset=0)),
        ("12345678901", StartPoint(offset=12345678901)),
        ("2026-03-01T12:00:00+00:00", StartPoint(timestamp_ms=1772366400000)),
        ("2026-03-01T12:00:00.250Z", StartPoint(timestamp_ms=1772366400250)),
        ("-1h", StartPoint(timestamp_ms=1772362800000)),
        ("-250ms", StartPoint(timestamp_ms=1772366399750)),
        ("-2w", StartPoint(timestamp_ms=1771156800000)),
        ("1960-01-01T00:00:00Z", StartPoint(timestamp_ms=0)),
    ],
)
def test_start_points_are_read(text: str, expected: StartPoint) -> None:
    assert parse_start_point(text, now=lambda: NOW) == expected


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 3, 1, 12, 0)
    assert parse_start_point("2026-03-01T12:00").timestamp_ms == round(local.timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "1h", "-1y", "2026-13-01", "beginning "])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not beginning"):
        parse_start_point(text)


def test_an_offset_that_only_some_partitions_have_is_brought_within_the_others() -> None:
    assert _clamp(5, {0: 0, 1: 7, 2: 0}, {0: 10, 1: 9, 2: 3}) == {0: 5, 1: 7, 2: 3}
    with pytest.raises(ValueError, match="the topic has offsets 0 to 10 in partition 0, 7 to 9 in partition 1"):
        _clamp(50, {0: 0, 1: 7}, {0: 10, 1: 9})
