"""The lines at the end of a test run that count the tests which were skipped because something is missing."""

from __future__ import annotations

from collections.abc import Iterable

from bench.cache import FETCH_HINT


def missing_lines(reasons: Iterable[str]) -> list[str]:
    """Count the reasons of skips: a line for parts that `make fetch` brings, and one for what has to be installed."""
    known = list(reasons)
    fetched = sum(FETCH_HINT in reason for reason in known)
    installed = sum("is not installed" in reason and FETCH_HINT not in reason for reason in known)
    lines = []
    if fetched:
        lines.append(f"{_tests(fetched)} skipped because a part is missing: run make fetch")
    if installed:
        lines.append(f"{_tests(installed)} skipped because a program or package is not installed")
    return lines


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"
