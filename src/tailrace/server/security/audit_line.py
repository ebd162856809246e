"""The lines of the audit log: JSON, in which long texts and long lists are cut."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from tailrace.base.security_limits import AUDIT_LIST_COUNT_MAX, AUDIT_TEXT_LENGTH_MAX


def audit_line(now_ms: int, event: str, fields: Mapping[str, Any]) -> str:
    """Return one line; JSON escapes control characters, so no name can forge another one."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "event": event, **fields})


def cut(value: Any) -> Any:
    """Return a value of a line with its long texts and long lists cut, at any depth; what is cut is counted."""
    match value:
        case str():
            return cut_text(value)
        case Mapping():
            kept = {cut_text(str(name)): cut(item) for name, item in islice(value.items(), AUDIT_LIST_COUNT_MAX)}
            return kept if _rest(value) <= 0 else {**kept, "…": f"{_rest(value)} more"}
        case list() | tuple():
            shown = [cut(item) for item in value[:AUDIT_LIST_COUNT_MAX]]
            return shown if _rest(value) <= 0 else [*shown, f"… {_rest(value)} more"]
    return value


def cut_text(text: str) -> str:
    """Return a text, or its beginning and the number of characters that are missing."""
    rest = len(text) - AUDIT_TEXT_LENGTH_MAX
    return text if rest <= 0 else f"{text[:AUDIT_TEXT_LENGTH_MAX]}… {rest} more characters"


def _rest(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...]) -> int:
    return len(value) - AUDIT_LIST_COUNT_MAX
