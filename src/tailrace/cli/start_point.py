"""The start position of a reader: `beginning`, `end`, an offset or a time."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.client.fetch.reader import Reader

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
_OFFSET = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StartPoint:
    """An offset, or a time in milliseconds since the epoch, or a word if both are None."""

    word: str = ""
    offset: int | None = None
    timestamp_ms: int | None = None


def parse_start_point(text: str, now: Callable[[], datetime] = datetime.now) -> StartPoint:
    """Read `beginning`, `end`, `1234`, `2026-03-01T12:00`, `2026-03-01T12:00:00+01:00` or `-15m`; raises ValueError."""
    if text in ("beginning", "end"):
        return StartPoint(word=text)
    if _OFFSET.fullmatch(text):
        return StartPoint(offset=int(text))
    if ago := _AGO.fullmatch(text):
        moment = now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            message = "is not beginning, end, an offset, a time such as 2026-03-01T12:00:00, or a time ago such as -15m"
            raise ValueError(f"{text!r} {message}") from None
    return StartPoint(timestamp_ms=max(0, round(moment.timestamp() * 1000)))


async def seek(reader: "Reader", start: StartPoint) -> None:
    """Move the reader to the start position; raises ValueError for an offset that no partition has."""
    from tailrace.client.offset import EARLIEST, LATEST

    if start.timestamp_ms is not None:
        await reader.seek_to_time(start.timestamp_ms)
    elif start.offset is None:
        await reader.seek_to_time(EARLIEST if start.word == "beginning" else LATEST)
    else:
        earliest, latest = await reader.find_offsets(EARLIEST), await reader.find_offsets(LATEST)
        reader.seek(_clamp(start.offset, earliest, latest))


def _clamp(offset: int, earliest: Mapping[int, int], latest: Mapping[int, int]) -> dict[int, int]:
    """Return the offset in each partition, or the nearest offset of its log."""
    if not any(earliest[partition] <= offset <= latest[partition] for partition in earliest):
        ranges = ", ".join(
            f"{first} to {latest[partition]} in partition {partition}" for partition, first in sorted(earliest.items())
        )
        raise ValueError(f"offset {offset} is out of range: the topic has offsets {ranges}")
    return {partition: min(max(offset, first), latest[partition]) for partition, first in earliest.items()}
