"""JSON texts read and written as Jackson does it, which Confluent's registry stores schemas with.

Jackson keeps the order of keys and the digits of decimals, and lets the last of several equal keys win. It writes
decimals like Java's BigDecimal, whose rules Python's Decimal shares. Three texts that Jackson takes are refused here:
NaN and Infinity, which are not JSON; characters after the value; and lone surrogates, which UTF-8 cannot carry.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, NoReturn

from tailrace.schema.language import NESTING_DEPTH_MAX, InvalidSchema

Json = Any
"""A value of JSON: dict, list, str, bool, int, Decimal or None."""

JSON_DEPTH_MAX = 2 * NESTING_DEPTH_MAX
"""Objects and arrays inside each other. A type inside a type takes two levels: `properties` and its own."""

NUMBER_CHARACTERS_MAX = 1_000
"""Digits of one number. Jackson has the same limit, and conversion takes quadratic time."""

PRIVATE_USE = range(0xE000, 0xF8FF)

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
ESCAPED_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")


def read(text: str) -> Json:
    """Return the value of a JSON text; raise InvalidSchema if it is not JSON or too deeply nested."""
    try:
        value = json.loads(text, parse_float=_decimal, parse_int=_integer, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidSchema(_too_deep()) from None
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"the schema is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    if _depth(value) > JSON_DEPTH_MAX:
        raise InvalidSchema(_too_deep())
    if LONE_SURROGATE.search(text) or ("\\u" in text and LONE_SURROGATE.search(_dumps(value))):
        raise InvalidSchema("the schema is not valid JSON: it holds half of a surrogate pair")
    return value


def write(value: Json) -> str:
    """Return a value as compact JSON with its keys in their order."""
    return _written(value, sort_keys=False)


def sort_key(value: Json) -> str:
    """Return a text that is equal for values that differ only in the order of keys."""
    return encode_basestring(value) if type(value) is str else _written(value, sort_keys=True)


def with_sorted_keys(value: Json) -> Json:
    """Return a copy of a value with the keys of every object in Java's order of strings."""
    copy = [value]
    open_containers: list[Any] = [copy]
    while open_containers:
        container = open_containers.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            child = container[key]
            if isinstance(child, dict):
                child = {name: child[name] for name in sorted(child, key=_java_order)}
            elif isinstance(child, list):
                child = list(child)
            else:
                continue
            container[key] = child
            open_containers.append(child)
    return copy[0]


def _java_order(name: str) -> bytes:
    """Java compares strings by their UTF-16 units, which differs from code points above U+FFFF."""
    return name.encode("utf-16-be")


def _written(value: Json, sort_keys: bool) -> str:
    text = _dumps(value, sort_keys)
    if "\\u00" in text:  # Jackson writes the digits of an escaped control character in upper case
        text = ESCAPED_CONTROL.sub(lambda found: f"{found[1]}\\u00{found[2].upper()}", text)
    return text


def _dumps(value: Json, sort_keys: bool = False) -> str:
    """Encode in C, with each decimal as a marked string that loses its quotes afterwards."""
    decimals: list[str] = []

    def number(decimal: Decimal) -> str:
        decimals.append(str(decimal))
        return mark + decimals[-1]

    mark = ""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys, default=number)
    if not decimals:
        return text
    mark = next(chr(point) for point in PRIVATE_USE if chr(point) not in text)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys, default=number)
    return re.sub(f'"{mark}([^"]*)"', r"\1", text)


def _depth(value: Json) -> int:
    """Count the levels of objects and arrays, level by level and without recursion."""
    depth = 0
    level = [value] if isinstance(value, dict | list) else []
    while level:
        depth += 1
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
    return depth


def _too_deep() -> str:
    return f"the schema nests objects and arrays deeper than {JSON_DEPTH_MAX} levels"


def _decimal(digits: str) -> Decimal:
    _check_length(digits)
    try:
        number = Decimal(digits)
    except InvalidOperation:
        raise InvalidSchema(f"the number {digits} of the schema is out of range") from None
    return abs(number) if number.is_zero() else number  # BigDecimal has no negative zero


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _check_length(digits: str) -> None:
    if len(digits) > NUMBER_CHARACTERS_MAX:
        raise InvalidSchema(f"a number of the schema has more than {NUMBER_CHARACTERS_MAX} characters")


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidSchema(f"the schema is not valid JSON: {name} is not a JSON value")
