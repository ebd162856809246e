"""What a row of the table says of a run of the gate."""

from tests.gate.repeat import Log, row

GOOD = """\
=== install: 90 s, status 0
Using --randomly-seed=1234
unsteady: tests/unit/a.py::test_b
18658 passed, 0 failed, 46 skipped
=== test: 631 s, status 0
=== demo: 61 s, status 0
=== all: 766 s
"""


def test_a_run_that_passed_has_its_seed_times_counts_and_unsteady_tests() -> None:
    line = row(Log.read(GOOD), "abc1234", "nothing", uptime_h=1e6)
    assert "| abc1234 | 1000000.0 h | nothing | 1234 | 18658 passed, 0 failed, 46 skipped |" in line
    assert line.endswith("| tests/unit/a.py::test_b | 631 s | 766 s |")


def test_a_run_that_failed_names_each_test_once() -> None:
    lines = ["FAILED a.py::test_c - assert 1 == 2", "FAILED a.py::test_c failed", "FAILED: test (logs in x)", ""]
    failed = GOOD.replace("0 failed", "1 failed") + "\n".join(lines)
    assert Log.read(failed).result == "18658 passed, 1 failed, 46 skipped; a.py::test_c"


def test_a_run_that_ended_early_has_dashes() -> None:
    assert Log.read("=== install: 3 s, status 2\n") == Log("-", "-", [], "-", "-")
