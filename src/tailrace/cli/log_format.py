"""The output of `tailrace log dump`: a line of names and values, or JSON."""

import json
from collections.abc import Callable
from typing import Any

from tailrace.cli.log_entry import Entry
from tailrace.cli.record_format import json_field, visible

Format = Callable[[str, Entry], str]
"""The lines for an entry of a file, without the last line end."""

_DIM = "\x1b[2m"
_RED = "\x1b[31m"
_PLAIN = "\x1b[0m"


def text_format(*, has_colour: bool) -> Format:
    """Return a line for the entry, and a line with a bar in front for each of its records."""
    dim, red, plain = (_DIM, _RED, _PLAIN) if has_colour else ("", "", "")

    def pairs(fields: dict[str, Any]) -> str:
        return " ".join(f"{dim}{name}={plain}{_text(value)}" for name, value in fields.items())

    def render(_file: str, entry: Entry) -> str:
        parts = [f"{dim}{entry.kind}{plain}"]
        if entry.fields:
            parts.append(pairs(entry.fields))
        if entry.problem:
            parts.append(f"{red}problem={_quoted(entry.problem)}{plain}")
        return "\n".join([" ".join(parts), *(f"| {pairs(record)}" for record in entry.records)])

    return render


def json_format(file: str, entry: Entry) -> str:
    """Return the entry as a JSON object on one line."""
    fields: dict[str, Any] = {"file": file, "kind": entry.kind, **entry.fields}
    if entry.problem:
        fields["problem"] = entry.problem
    if entry.records:
        fields["records"] = [_json_record(record) for record in entry.records]
    return json.dumps(fields, ensure_ascii=False)


def _json_record(record: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in record.items() if name not in ("key", "value", "headers")}
    if "headers" in record:
        fields |= json_field("key", record["key"]) | json_field("value", record["value"])
        fields["headers"] = [{"key": name, **json_field("value", value)} for name, value in record["headers"]]
    return fields


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case bytes():
            return _quoted(visible(value))
        case tuple():
            return "[" + ", ".join(f"{_quoted(visible(name.encode()))}: {_text(text)}" for name, text in value) + "]"
        case str() if not value.isprintable() or " " in value or not value:
            return _quoted(visible(value.encode("utf-8", "backslashreplace")))
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
