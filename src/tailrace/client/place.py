"""Places in a log: `"earliest"`, `"latest"`, an offset, a time, or a time ago such as `"-1h"`."""

import re
import time
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from tailrace.client.offset import EARLIEST, LATEST

PlaceName: TypeAlias = str | int | datetime | timedelta

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
_WORDS = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
_KINDS = '"earliest", "latest", an offset, a datetime, a time such as "2026-03-01T12:00:00", or one ago such as "-15m"'


_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d{1,9})D)?"
    r"(?:T(?=[+\-\d])(?:(?P<hours>[+-]?\d{1,9})H)?(?:(?P<minutes>[+-]?\d{1,9})M)?"
    r"(?:(?P<seconds>[+-]?\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


class Place(NamedTuple):
    """An offset, or a time in milliseconds; EARLIEST and LATEST count as times.

    `ago_ms` counts from the moment at which the place is used.
    """

    offset: int | None
    timestamp_ms: int = 0
    ago_ms: int | None = None

    @property
    def time_ms(self) -> int:
        """Return the time that the place means now."""
        return self.timestamp_ms if self.ago_ms is None else max(0, round(time.time() * 1000) - self.ago_ms)


_COMMITTED = -1_000  # neither a time nor one of Kafka's special values

AT_EARLIEST = Place(None, EARLIEST)
AT_LATEST = Place(None, LATEST)
AT_COMMITTED = Place(None, _COMMITTED)
"""Where the group has committed that it is."""


def read_place(name: PlaceName, now_s: float | None = None) -> Place:
    """Return the place of a name; raises ValueError or TypeError for an invalid one."""
    if isinstance(name, bool) or not isinstance(name, str | int | datetime | timedelta):
        raise TypeError(f"{name!r} is not a place in a log; use {_KINDS}")
    if isinstance(name, int):
        if name < 0:
            raise ValueError(f"{name} is not an offset; use {_KINDS}")
        return Place(name)
    if isinstance(name, str):
        if name in _WORDS:
            return Place(None, _WORDS[name])
        name = _read_text(name)
    if isinstance(name, timedelta):
        moment_s = (time.time() if now_s is None else now_s) - abs(name.total_seconds())
    else:
        moment_s = name.timestamp()
    return Place(None, max(0, round(moment_s * 1000)))


def read_reset(name: str) -> Place | None:
    """Return the place of a value of `auto.offset.reset`, None for "none"; raises ValueError for an invalid one."""
    if name == "none":
        return None
    if name in ("earliest", "latest"):
        return Place(None, _WORDS[name])
    if not name.startswith(_BY_DURATION):
        raise ValueError(f"{name!r} is not a value of auto.offset.reset")
    return Place(None, ago_ms=_read_duration_ms(name.removeprefix(_BY_DURATION)))


def _read_duration_ms(text: str) -> int:
    """Parse one of Java's durations: `PT1H30M`, `P2DT0.5S`; days have 24 hours (KIP-1106)."""
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {unit: amount for unit, amount in match.groupdict().items() if amount}
    sign = parts.pop("sign", "+")
    if not parts:
        raise ValueError(f"{text!r} is not a duration such as PT1H30M")
    duration = timedelta(**{unit: float(amount) for unit, amount in parts.items()}) * (-1 if sign == "-" else 1)
    if duration < timedelta(0):
        raise ValueError(f"{text!r} is a negative duration")
    return duration // timedelta(milliseconds=1)


def _read_text(text: str) -> datetime | timedelta:
    if ago := _AGO.fullmatch(text):
        return timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a place in a log; use {_KINDS}") from None
