"""The output of `tailrace consume`: bytes in a pipe, colours at a terminal, or JSON."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.records.record import Record

Format = Callable[[str, int, "Record"], bytes]
"""A line for a record of a topic and partition, with its end."""

_DIM = "\x1b[2m"
_KEY = "\x1b[36m"
_PLAIN = "\x1b[0m"
_NULL = b"null"  # as in Kafka's console consumer


def plain_format(key_separator: bytes | None) -> Format:
    """Return the value as it is, or the key, the separator and the value."""

    def render(_topic: str, _partition: int, record: "Record") -> bytes:
        value = _NULL if record.value is None else record.value
        if key_separator is None:
            return value + b"\n"
        return (_NULL if record.key is None else record.key) + key_separator + value + b"\n"

    return render


def terminal_format(_topic: str, partition: int, record: "Record") -> bytes:
    """Format position, time, key and value in colours, with control characters escaped."""
    place = f"{_DIM}{partition}:{record.offset} {_time(record.timestamp)}{_PLAIN}"
    key = "" if record.key is None else f" {_KEY}{visible(record.key)}{_PLAIN}"
    value = f"{_DIM}null{_PLAIN}" if record.value is None else visible(record.value)
    headers = "".join(f" {_DIM}{visible(name.encode())}={_shown(text)}{_PLAIN}" for name, text in record.headers)
    return f"{place}{key} {value}{headers}\n".encode()


def json_format(topic: str, partition: int, record: "Record") -> bytes:
    """Return a JSON object on one line; bytes that are not UTF-8 are `key_base64` or `value_base64`."""
    fields: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **json_field("key", record.key),
        **json_field("value", record.value),
        "headers": [{"key": name, **json_field("value", value)} for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as a JSON field: text if they are UTF-8, else base 64 under another name."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _shown(data: bytes | None) -> str:
    return "null" if data is None else visible(data)


def visible(data: bytes) -> str:
    """Return bytes as text with control characters escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
