"""What tests look at does not depend on the tests before them."""

import re

from tests.tidy.tree import ROOT, python_files, shown

FORMATTED_LOG = re.compile(r"\bcaplog" + r"\.text\b")


def test_no_test_reads_the_log_through_a_formatter() -> None:
    """Pyspark changes the formatter of pytest's handler for the rest of the process; `tests.logged` has its own."""
    found = [
        f"{shown(path)}:{number}"
        for path in python_files("tests")
        if path != ROOT / "tests" / "logged.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORMATTED_LOG.search(line)
    ]
    assert found == []
