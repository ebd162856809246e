"""The parsers of option values, whose errors name the option."""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from tailrace.base.sentinel import INT64_MAX
from tailrace.spark.error import OptionError

T = TypeVar("T")

_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_bool(option: str, text: str) -> bool:
    """Parse `true` or `false`, in any case."""
    return parse_choice(option, text, {"true": True, "false": False})


def parse_choice(option: str, text: str, choices: Mapping[str, T]) -> T:
    """Parse one of some words, in any case."""
    found = choices.get(text.strip().lower())
    if found is None:
        raise OptionError(option, f"{text!r} is not one of {', '.join(choices)}")
    return found


def parse_int(option: str, text: str, *, least: int = 0, most: int = INT64_MAX) -> int:
    """Parse an integer within bounds."""
    stripped = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", stripped):
        raise OptionError(option, f"{text!r} is not an integer")
    number = int(stripped)
    if not least <= number <= most:
        raise OptionError(option, f"{number} is not between {least} and {most}" if most < INT64_MAX else _below(least))
    return number


def _below(least: int) -> str:
    return "it must be positive" if least == 1 else f"it must be at least {least}"


def parse_duration_ms(option: str, text: str) -> int:
    """Parse a duration in Spark's format: `15m`, `10s`, `500ms`; a bare number is milliseconds."""
    found = re.fullmatch(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(option, f"{text!r} is not a duration such as 500ms, 10s, 15m, 1h")
    return int(int(found[1]) * _UNITS_MS[found[2]])


def at_least(least: int, most: int = INT64_MAX) -> Callable[[str, str], int]:
    """Return a parser of integers within bounds."""
    return lambda option, text: parse_int(option, text, least=least, most=most)
