"""The difference between a registry's answers and those recorded from Confluent's, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.unit.registry.answers.record import Answer

HERE = Path(__file__).parent
RECORDED = HERE.parent / "confluent_answers.json"
RECORDS = HERE.parent / "confluent_records.json"
KNOWN = HERE.parent / "known_differences.json"

_KIND = re.compile(r"errorType: ?['\"]?(\w+)")
_PLACE = re.compile(r"'([/#][^']*)'")


def recorded() -> dict[str, Any]:
    """Return what Confluent's registry answered: its version and commit, and the answers of each story."""
    return dict(json.loads(RECORDED.read_text()))


def known() -> dict[str, Any]:
    """Return what may differ, with reasons: the messages of error codes, and the answers to single calls.

    `messages` maps an error code to the reason why its message is free. `calls` maps a story to the calls in it
    that are answered otherwise, each with `answer` and `why`.
    """
    return dict(json.loads(KNOWN.read_text()))


def expected(name: str) -> dict[str, Answer]:
    """Return the answers that our registry gives in a story: Confluent's, but for the known differences."""
    others = known()["calls"].get(name, {})
    answers: dict[str, Answer] = recorded()["stories"][name]
    return {title: others[title]["answer"] if title in others else answer for title, answer in answers.items()}


def differences(wanted: Mapping[str, Answer], given: Mapping[str, Answer]) -> Iterator[str]:
    """Yield a few lines of text for each call that is answered otherwise than wanted, or not at all."""
    free = known()["messages"]
    for title in [*wanted, *(title for title in given if title not in wanted)]:
        if title not in given or title not in wanted:
            yield f"{title}\n  {'not asked' if title in wanted else 'no answer is recorded'}"
            continue
        lines = [
            f"  {part} wanted {_shown(wanted[title][part])}\n  {part} given  {_shown(given[title][part])}"
            for part in ("status", "type", "body")
            if _comparable(wanted[title][part], free) != _comparable(given[title][part], free)
        ]
        if lines:
            yield "\n".join([title, *lines])


def _comparable(value: Any, free: Mapping[str, str]) -> Any:
    """Leave out what may differ: messages in free words, and all but the kind and the place of an incompatibility."""
    if isinstance(value, dict) and "error_code" in value:
        code = str(value["error_code"])
        return {"error_code": value["error_code"], "message": None if code in free else value.get("message")}
    if isinstance(value, dict) and "is_compatible" in value:
        return {**value, "messages": sorted(filter(None, map(_kind_and_place, value.get("messages") or [])))}
    return value


def _kind_and_place(message: str) -> str:
    kind = _KIND.search(message)
    place = _PLACE.search(message)
    if kind is None:
        return ""
    return kind[1] + (f" at {place[1]}" if place else "")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
