"""Bring every part that tests and benchmarks need, before they run: `make fetch`.

    python -m bench.fetch [--strict]

A part that fails is tried again, up to three times; the others are brought all the same. The exit status is 0 even if
a part is not available, so that the tests which need it skip, but 1 if what was downloaded does not build. With
`--strict` it is 1 if any part is missing.
"""

from __future__ import annotations

import argparse
import enum
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.cache import NotInstalled, Unavailable, downloads
from bench.parts import Part, all_parts

ATTEMPT_COUNT_MAX = 3
PAUSE_S = 10.0


class Outcome(enum.Enum):
    """What became of a part."""

    THERE = "there"
    MISSING = "missing"
    BROKEN = "broken"


def fetch(parts: Iterable[Part], *, pause_s: float = PAUSE_S) -> Counter[Outcome]:
    """Make each part that is missing, print a line about each attempt, and count the outcomes."""
    return Counter(_fetch(part, pause_s) for part in parts)


def _fetch(part: Part, pause_s: float) -> Outcome:
    _begin(part)
    outcome = _attempt(part, 0)
    for number in range(1, ATTEMPT_COUNT_MAX + 1):
        if outcome is not None:
            return outcome
        if number > 1:
            time.sleep(pause_s)
            _begin(part)
        outcome = _attempt(part, number)
    return outcome or Outcome.MISSING


def _attempt(part: Part, number: int) -> Outcome | None:
    """Make a part, or only look for it if the number is 0; None if another attempt may help."""
    start_s = time.monotonic()
    try:
        with downloads(allowed=number > 0):
            part.make()
    except NotInstalled as reason:
        _end(f"not available: {reason}")
        return Outcome.MISSING
    except Unavailable as reason:
        if number > 0:
            _end(f"attempt {number} of {ATTEMPT_COUNT_MAX}: {reason}")
        return None
    except Exception as error:  # a compiler's complaint, or a full disk: the other parts are brought all the same
        _end(f"broken: {error}")
        return Outcome.BROKEN
    _end(f"done in {time.monotonic() - start_s:.0f} s" if number > 0 else "already there")
    return Outcome.THERE


def _begin(part: Part) -> None:
    """Print the start of a line, so that a reader sees what takes long."""
    print(f"fetch: {part.name} … ", end="", flush=True)


def _end(text: str) -> None:
    print(text, flush=True)


def summary(outcomes: Counter[Outcome]) -> str:
    """Return the line at the end, such as `11 parts there, 2 missing`."""
    there, missing = outcomes[Outcome.THERE], outcomes[Outcome.MISSING] + outcomes[Outcome.BROKEN]
    return f"{there} part{'' if there == 1 else 's'} there, {missing} missing"


def exit_status(outcomes: Counter[Outcome], *, is_strict: bool) -> int:
    """Return the status of the command after these outcomes."""
    return int(bool(outcomes[Outcome.BROKEN] or (is_strict and outcomes[Outcome.MISSING])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m bench.fetch", description="Bring what tests and benchmarks need.")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a part is missing")
    options = parser.parse_args(arguments)
    outcomes = fetch(all_parts())
    print(f"fetch: {summary(outcomes)}")
    return exit_status(outcomes, is_strict=options.strict)


if __name__ == "__main__":
    sys.exit(main())
