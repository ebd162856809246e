"""The list of known unsteady tests is read strictly, and stays short and young."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tests.gate.lane import CHECKOUT
from tests.gate.quarantine import Entry, complaints, read

TODAY = date(2026, 11, 18)


def test_the_list_is_short_and_young() -> None:
    assert complaints(read(), datetime.now(UTC).date()) == []


def test_every_entry_names_a_test() -> None:
    for entry in read():
        file, _, name = entry.test_id.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (CHECKOUT / file).read_text()


def test_entries_are_read(tmp_path: Path) -> None:
    file = tmp_path / "quarantine.txt"
    file.write_text("# known\n\ntests/a.py::test_b | 2026-11-17 | the proxy | closes late\n")
    assert read(file) == [Entry("tests/a.py::test_b", date(2026, 11, 17), "the proxy | closes late")]
    assert read(tmp_path / "none") == []


@pytest.mark.parametrize("line", ["tests/a.py::test_b", "a | b | c", "a | 2026-11-17 | ", "a | 2026-11-17"])
def test_a_line_without_date_or_cause_is_an_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "quarantine.txt"
    file.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"quarantine\.txt"):
        read(file)


def test_old_future_and_too_many_entries_are_named() -> None:
    assert complaints([Entry("a", date(2026, 11, 4), "c")], TODAY) == []
    assert complaints([Entry("a", date(2026, 11, 3), "c")], TODAY) == ["a: since 2026-11-03"]
    assert complaints([Entry("a", date(2026, 11, 19), "c")], TODAY) == ["a: 2026-11-19 has not come yet"]
    assert complaints([Entry(str(number), TODAY, "c") for number in range(11)], TODAY) == [
        "11 entries, and 10 are allowed"
    ]
