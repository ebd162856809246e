"""Places in a log, as people name them: `"earliest"`, `"latest"`, an offset, a time, or a time ago such as `"-1h"`."""

import re
import time
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from runnel.client.offset import EARLIEST, LATEST

PlaceName: TypeAlias = str | int | datetime | timedelta

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
_WORDS = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
_KINDS = '"earliest", "latest", an offset, a datetime, a time such as "2026-03-01T12:00:00", or one ago such as "-15m"'


class Place(NamedTuple):
    """An offset, or a time in milliseconds; EARLIEST and LATEST count as times."""

    offset: int | None
    timestamp_ms: int = 0


_COMMITTED = -1_000  # no time, and none of those that Kafka gives a meaning to

AT_EARLIEST = Place(None, EARLIEST)
AT_LATEST = Place(None, LATEST)
AT_COMMITTED = Place(None, _COMMITTED)
"""Where the group has committed that it is."""


def read_place(name: PlaceName, now_s: float | None = None) -> Place:
    """The place of that name; raises ValueError or TypeError for what names none."""
    if isinstance(name, bool) or not isinstance(name, str | int | datetime | timedelta):
        raise TypeError(f"{name!r} is no place in a log; there is {_KINDS}")
    if isinstance(name, int):
        if name < 0:
            raise ValueError(f"{name} is no offset; there is {_KINDS}")
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


def _read_text(text: str) -> datetime | timedelta:
    if ago := _AGO.fullmatch(text):
        return timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no place in a log; there is {_KINDS}") from None
