"""The bounds of a source that Spark reads only as a batch, such as `jdbc`."""

from pathlib import Path

import pytest
from tests.logged import logged

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tailrace.spark.connector.cursor_watch import CursorWatch
from tailrace.spark.connector.range_stream import RangeReader

ALL = ReadAllAvailable()


def test_a_highest_value_that_goes_back_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A replica that was behind had the flow read the rows above its highest value a second time."""
    path = tmp_path / "high"
    reader = RangeReader("9", path, CursorWatch("id of jdbc orders", is_number=True))
    position = reader.initialOffset()
    seen = []
    for high in ("", "9", "10", "8", "7", "10", "11", "10"):
        path.write_text(high)
        position = reader.latestOffset(position, ALL)
        seen.append(position["high"])
    assert seen == [None, "9", "10", "10", "10", "10", "11", "11"]
    assert logged(caplog).splitlines() == [
        f"the highest id of jdbc orders was {before} and is {now} now. Only rows above {before} are read. If the table "
        "was emptied and its values are used again, reset the flow"
        for before, now in (("10", "8"), ("11", "10"))
    ]


@pytest.mark.parametrize(
    ("before", "now", "is_number", "expected"),
    [
        ("10", "9", True, True),
        ("9", "10", True, False),
        ("10", "9", False, False),
        ("1.5E10", "20000000000", True, False),
        ("-1", "-1.5", True, True),
        ("3", "NaN", True, False),
        ("2026-01-01 10:00:00", "2026-01-01 10:00:00.1", False, False),
        ("2026-01-01 10:00:00.12", "2026-01-01 10:00:00.1", False, True),
        ("b", "a", False, True),
    ],
)
def test_values_are_compared_as_the_column_does(before: str, now: str, *, is_number: bool, expected: bool) -> None:
    assert CursorWatch("id", is_number).is_back(before, now) is expected
