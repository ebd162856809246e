"""Places in a log, as people name them."""

from datetime import UTC, datetime, timedelta

import pytest

from runnel.client.offset import EARLIEST, LATEST
from runnel.client.place import Place, PlaceName, read_place

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
    with pytest.raises(TypeError, match="no place in a log"):
        read_place(name)  # type: ignore[arg-type]
