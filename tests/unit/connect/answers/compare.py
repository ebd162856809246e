"""The difference between the answers of our service and those recorded from Kafka Connect, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.unit.registry.answers.record import Answer

HERE = Path(__file__).parent
RECORDED = HERE.parent / "kafka_connect_answers.json"
KNOWN = HERE.parent / "known_differences.json"


def recorded() -> dict[str, Any]:
    """Return what Kafka Connect answered: its version, and the answers of each story."""
    return dict(json.loads(RECORDED.read_text()))


def known() -> dict[str, Any]:
    """Return the calls that our service answers otherwise, by story, each with `answer` and `why`."""
    return dict(json.loads(KNOWN.read_text()))


_IN_OTHER_WORDS = (
    "Failed to find any class",
    "Connector configuration is invalid",
    "contains no connector type",
)


def is_allowed(wanted: Answer, given: Answer) -> bool:
    """Return whether an answer differs only as docs/CONNECT.md says.

    A request that is wrong is answered with 400 where Kafka Connect has 500, an error has the media type of JSON, and
    the HTTP server's own pages are errors of the API. Lists of plugins and of the errors of a config are in our words.
    The definitions of settings have tests of their own (`plugin/`); here, only their names count.
    """
    if str(wanted["body"]).startswith("<a page") or (wanted["status"] == 400 and wanted["body"] is None):
        return bool(given["status"] < 500)
    if _is_about_settings(wanted["body"]) and _is_about_settings(given["body"]):
        return bool(_outline(wanted["body"]) == _outline(given["body"]))
    if not isinstance(wanted["body"], dict) or not isinstance(given["body"], dict):
        return False
    if "error_code" not in wanted["body"] or given["body"].get("error_code") != given["status"]:
        return False
    if wanted["status"] == 500:
        return bool(given["status"] == 400)
    both = (str(each["body"]["message"]) for each in (wanted, given))
    is_free = all(any(words in message for words in _IN_OTHER_WORDS) for message in both)
    return bool(wanted["status"] == given["status"] and (is_free or wanted["body"] == given["body"]))


def _is_about_settings(body: Any) -> bool:
    if isinstance(body, list):
        return bool(body) and isinstance(body[0], dict) and "display_name" in body[0]
    return isinstance(body, dict) and "configs" in body


def _outline(body: Any) -> Any:
    if isinstance(body, list):
        return [definition["name"] for definition in body]
    return body["name"], body["error_count"], body["groups"]


def expected(name: str) -> dict[str, Answer]:
    """Return the answers that our service gives in a story: Kafka Connect's, but for the known differences."""
    others = known().get(name, {})
    answers: dict[str, Answer] = recorded()["stories"][name]
    return {title: others[title]["answer"] if title in others else answer for title, answer in answers.items()}


def differences(wanted: Mapping[str, Answer], given: Mapping[str, Answer]) -> Iterator[str]:
    """Yield a few lines of text for each call that is answered otherwise than wanted, or not at all."""
    for title in [*wanted, *(title for title in given if title not in wanted)]:
        if title not in given or title not in wanted:
            yield f"{title}\n  {'not asked' if title in wanted else 'no answer is recorded'}"
            continue
        if is_allowed(wanted[title], given[title]):
            continue
        lines = [
            f"  {part} wanted {_shown(wanted[title][part])}\n  {part} given  {_shown(given[title][part])}"
            for part in ("status", "type", "body")
            if wanted[title][part] != given[title][part]
        ]
        if lines:
            yield "\n".join([title, *lines])


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
