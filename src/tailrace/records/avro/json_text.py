"""JSON as Jackson reads and writes it, which Avro for Java and so Confluent's registry use.

Reading allows comments and rejects NaN. Writing uses no white space, and writes doubles as Java does.
"""

import json
import math
import re
from decimal import Decimal

from tailrace.base.schema_limits import SCHEMA_NESTING_DEPTH_MAX
from tailrace.records.avro.type import InvalidAvroSchema, Json

_TOKEN = re.compile(r'"|//|/\*')
_REST_OF_STRING = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)
_LINE_END = re.compile(r"[\r\n]")
_NOT_LINE_END = re.compile(r"[^\r\n]")
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def load(text: str) -> Json:
    """Parse a JSON text. The error says where it is broken."""
    try:
        try:
            return _loads(text)
        except ValueError:
            if "/*" not in text and "//" not in text:
                raise
            return _loads(_without_comments(text))
    except json.JSONDecodeError as error:
        raise InvalidAvroSchema(f"Line {error.lineno} column {error.colno}: not valid JSON: {error.msg}") from None
    except ValueError as error:
        raise InvalidAvroSchema(f"Not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidAvroSchema(f"The schema is nested more than {SCHEMA_NESTING_DEPTH_MAX} levels deep") from None


def _loads(text: str) -> Json:
    value: Json = json.loads(text, parse_constant=_reject_constant)
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _without_comments(text: str) -> str:
    """Replace each comment by spaces, so that lines and columns of errors stay."""
    parts: list[str] = []
    position = 0
    while token := _TOKEN.search(text, position):
        start = token.start()
        parts.append(text[position:start])
        if token.group() == '"':
            rest = _REST_OF_STRING.match(text, token.end())
            position = rest.end() if rest else len(text)
            parts.append(text[start:position])
            continue
        if token.group() == "//":
            line_end = _LINE_END.search(text, start)
            position = line_end.start() if line_end else len(text)
        else:
            end = text.find("*/", start + 2)
            if end < 0:
                raise ValueError("a comment is not closed")
            position = end + 2
        parts.append(_NOT_LINE_END.sub(" ", text[start:position]))
    parts.append(text[position:])
    return "".join(parts)


def quoted(text: str) -> str:
    """Return a JSON string."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def dump(value: Json) -> str:
    """Write a JSON value."""
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, list):
        return f"[{','.join([dump(item) for item in value])}]"
    return f"{{{','.join([f'{quoted(key)}:{dump(item)}' for key, item in value.items()])}}}"


def _double(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{int(exponent) + len(digits) - 1}"


def sorted_keys(value: Json) -> Json:
    """Return the value with the keys of each object in the order of their UTF-16 code units, as Java sorts them."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value, key=utf16_order)}
    if isinstance(value, list):
        return [sorted_keys(item) for item in value]
    return value


def utf16_order(text: str) -> bytes:
    """Return a sort key that orders texts as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def is_deeper_than(value: Json, depth_max: int) -> bool:
    """Return whether arrays and objects are nested more than `depth_max` levels deep."""
    level: list[Json] = [value]
    for _ in range(depth_max + 1):
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list))
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True
