"""The conversion of PostgreSQL's values to JSON, as Debezium's connector does it. Pure.

Values come in the text form of their type, as the sessions of the connector `postgres` write them: dates and intervals
in ISO 8601, times in UTC, bytes in hexadecimal. A value that PostgreSQL can hold is never an error here: years before
Christ and after 9999, infinite times, NaN and odd array bounds have their forms. The modes of Debezium that this is
equal to:

- `time.precision.mode=adaptive`, its default: dates are days, times and timestamps are microseconds, or milliseconds
  if the column has at most three digits of a second;
- `decimal.handling.mode=string`, since bytes with a scale are of little use in JSON;
- `interval.handling.mode=string`, since a number would be an approximation;
- `binary.handling.mode=base64`, which is what the default is in JSON;
- `hstore.handling.mode=json`, its default.

The few places where Debezium's values are wrong, or not those of its documentation, are in docs/connectors.
"""

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import md5
from json.encoder import encode_basestring
from uuid import UUID

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a value that PostgreSQL has left out, because it is stored out of line and has not changed."""

Convert = Callable[[str], str]

VECTOR, SPARSE_VECTOR, HSTORE, HSTORE_ARRAY = -1, -2, -3, -4
"""Stand-ins for types of extensions, whose numbers differ between databases."""
TEXT_ARRAY = 1009
_TEXT = 25
_BOOL, _BYTEA, _INT8, _INT2, _INT4, _OID, _POINT, _FLOAT4, _FLOAT8, _MONEY = 16, 17, 20, 21, 23, 26, 600, 700, 701, 790
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _TIMETZ, _BIT, _VARBIT = 1082, 1083, 1114, 1184, 1266, 1560, 1562
_INTERVAL, _NUMERIC, _UUID = 1186, 1700, 2950
ELEMENTS = {
    **{1000: _BOOL, 1001: _BYTEA, 1005: _INT2, 1007: _INT4, 1016: _INT8, 1028: _OID, 1021: _FLOAT4, 1022: _FLOAT8},
    **{1182: _DATE, 1183: _TIME, 1115: _TIMESTAMP, 1185: _TIMESTAMPTZ, 1270: _TIMETZ, 791: _MONEY, 1017: _POINT},
    **{1561: _BIT, 1563: _VARBIT, 1187: _INTERVAL, 1231: _NUMERIC, 2951: _UUID},
    **dict.fromkeys((1002, 1003, TEXT_ARRAY, 1014, 1015, 199, 3807, 143, 1041, 651, 1040, 775), _TEXT),
    **dict.fromkeys((3905, 3907, 3909, 3911, 3913, 3927), _TEXT),
    HSTORE_ARRAY: HSTORE,
}
"""The element types of arrays; text stands for all those whose text form is kept."""
_MILLISECOND_DIGITS = 3
_MICROSECOND_DIGITS = 6
_NOT_NUMBERS = {"NaN", "Infinity", "-Infinity"}
_NOT_DECIMALS = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
_INFINITY = {"infinity": "9223372036825200000", "-infinity": "-9223372036832400000"}
_INFINITE_DATE = {"infinity": "2147483647", "-infinity": "-2147483648"}
_DAY_S = 86_400
_YEAR_DIGITS = 4
_POINT_WKB = struct.Struct("<BIdd")
_INTERVAL_PARTS = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?"
)
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")', re.DOTALL)
_SPARSE_VECTOR = re.compile(r"\{(.*)\}/(\d+)")
_ZONED_TIME = re.compile(r"([\d:.]+)([+-])(\d+)(?::(\d+))?(?::(\d+))?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN = re.compile(r"[^,{}]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def converter(type_oid: int, modifier: int = -1) -> Convert:
    """Return the function that makes JSON of a value's text."""
    element = ELEMENTS.get(type_oid)
    if element is not None:
        return partial(_array, converter(element, modifier))
    if type_oid in (_TIME, _TIMESTAMP):
        is_short = 0 <= modifier <= _MILLISECOND_DIGITS
        return partial(_time if type_oid == _TIME else _timestamp, 1000 if is_short else 1)
    if type_oid == _TIMESTAMPTZ:
        return partial(_zoned_timestamp, modifier if 0 <= modifier < _MICROSECOND_DIGITS else _MICROSECOND_DIGITS)
    if type_oid == _BIT and modifier == 1:
        return _one_bit
    return _CONVERTERS.get(type_oid, encode_basestring)


def unavailable(type_oid: int) -> str:
    """Return the JSON that stands for a value which PostgreSQL has left out.

    Debezium's placeholder in an array of numbers is the array of its characters, and in an array of UUIDs that of its
    hash. For hstore it is the text of a JSON object. Where Debezium has null, which could be taken for the value, the
    placeholder is the text.
    """
    element = ELEMENTS.get(type_oid)
    if element is None:
        return _UNAVAILABLE_VALUES.get(type_oid) or encode_basestring(UNAVAILABLE)
    if element in (_INT4, _INT8, _DATE):
        return json.dumps(list(UNAVAILABLE.encode()), separators=(",", ":"))
    return f"[{_UNAVAILABLE_ELEMENTS.get(element) or encode_basestring(UNAVAILABLE)}]"


def _same(text: str) -> str:
    return text


def _bool(text: str) -> str:
    return "true" if text == "t" else "false"


def _float(text: str) -> str:
    """Return the number with a point or an exponent, so that no reader takes it for an integer."""
    if text in _NOT_NUMBERS:
        return f'"{text}"'
    return text if "." in text or "e" in text else f"{text}.0"


def _decimal(text: str) -> str:
    return f'"{_NOT_DECIMALS.get(text, text)}"'


def _money(text: str) -> str:
    """Return the amount without the signs of the locale C, which sessions of this connector have."""
    return f'"{text.replace("$", "").replace(",", "")}"'


def _base64(data: bytes) -> str:
    return f'"{b64encode(data).decode()}"'


def _bytea(text: str) -> str:
    return _base64(bytes.fromhex(text.removeprefix("\\x")))


def _one_bit(text: str) -> str:
    return "true" if text == "1" else "false"


def _bits(text: str) -> str:
    """Return the bits as bytes, the lowest ones first, as Debezium's type Bits has them."""
    return _base64(int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little"))


def _point(text: str) -> str:
    """Return the coordinates, and the same as well-known binary."""
    x, _, y = text.strip("()").partition(",")
    wkb = _base64(_POINT_WKB.pack(1, 1, float(x), float(y)))
    return f'{{"x":{_float(x)},"y":{_float(y)},"wkb":{wkb},"srid":null}}'


def _vector(text: str) -> str:
    return f"[{','.join(map(_float, text.strip('[]').split(',')))}]"


def _sparse_vector(text: str) -> str:
    """Return the dimensions and the pairs of index and value, of a text such as {1:1.5,3:2}/5."""
    found = _SPARSE_VECTOR.fullmatch(text)
    if found is None:
        return encode_basestring(text)
    pairs = [pair.partition(":") for pair in found[1].split(",") if pair]
    vector = ",".join(f"[{index},{_float(value)}]" for index, _, value in pairs)
    return f'{{"dimensions":{found[2]},"vector":[{vector}]}}'


def _hstore(text: str) -> str:
    """Return the pairs as the text of a JSON object."""
    pairs = {
        _ESCAPED.sub(r"\1", found[1]): None if found[2] is None else _ESCAPED.sub(r"\1", found[2])
        for found in _PAIR.finditer(text)
    }
    return encode_basestring(json.dumps(pairs, ensure_ascii=False, separators=(",", ":")))


def _interval(text: str) -> str:
    """Return the interval with all its parts, as in P0Y0M1DT0H0M0S."""
    found = _INTERVAL_PARTS.fullmatch(text)
    if found is None:
        return encode_basestring(text)
    years, months, days, hours, minutes, seconds = (part or "0" for part in found.groups())
    return f'"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"'


def _date(text: str) -> str:
    return _INFINITE_DATE.get(text) or str(_days(text))


def _days(text: str) -> int:
    """Return the days since 1970 in the proleptic Gregorian calendar, for any year that PostgreSQL has."""
    date, is_before_christ = text.removesuffix(" BC"), text.endswith(" BC")
    year, month, day = map(int, date.split("-"))
    if is_before_christ:
        year = 1 - year
    # Years begin in March here, so that the leap day is the last one.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _microseconds(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def _time(divisor: int, text: str) -> str:
    return str(_microseconds(text) // divisor)


def _timestamp(divisor: int, text: str) -> str:
    if text in _INFINITY:
        return _INFINITY[text]
    date, _, time = text.partition(" ")
    if text.endswith(" BC"):
        date, time = f"{date} BC", time.removesuffix(" BC")
    return str((_days(date) * _DAY_S * 1_000_000 + _microseconds(time)) // divisor)


def _zoned_timestamp(digits: int, text: str) -> str:
    """Return the timestamp in ISO 8601, with the digits of its column. The session's time zone is UTC: +00."""
    if text in _INFINITY:
        return f'"{text}"'
    date, _, time = text.removesuffix(" BC").partition(" ")
    year, _, rest = date.partition("-")
    if text.endswith(" BC"):
        date = f"-{int(year) - 1:04}-{rest}"
    elif len(year) > _YEAR_DIGITS:
        date = f"+{date}"
    time, _, fraction = time.removesuffix("+00").partition(".")
    return f'"{date}T{time}.{fraction.ljust(digits, "0")}Z"' if digits else f'"{date}T{time}Z"'


def _zoned_time(text: str) -> str:
    """Return the time of day in UTC, with as many digits as it has."""
    found = _ZONED_TIME.fullmatch(text)
    if found is None:
        return encode_basestring(text)
    offset_s = int(found[3]) * 3600 + int(found[4] or 0) * 60 + int(found[5] or 0)
    time, _, fraction = found[1].partition(".")
    time_s = _microseconds(time) // 1_000_000
    if offset_s or time_s != _DAY_S:  # 24:00:00 in UTC stays
        time_s = (time_s - (offset_s if found[2] == "+" else -offset_s)) % _DAY_S
    return f'"{time_s // 3600:02}:{time_s // 60 % 60:02}:{time_s % 60:02}{"." if fraction else ""}{fraction}Z"'


def _array(convert: Convert, text: str) -> str:
    """Return a JSON array of an array's text, such as {1,NULL,"a b"}, nested for several dimensions."""
    parts: list[str] = []
    at = text.index("{")  # the bounds of an array that does not begin at 1 stand before it
    while at < len(text):
        character = text[at]
        if character in "{},":
            parts.append({"{": "[", "}": "]", ",": ","}[character])
            at += 1
        elif character == '"':
            found = _QUOTED.match(text, at)
            if found is None:
                return encode_basestring(text)
            parts.append(convert(_ESCAPED.sub(r"\1", found[1])))
            at = found.end()
        else:
            found = _PLAIN.match(text, at)
            plain = found[0] if found else ""
            parts.append("null" if plain == "NULL" else convert(plain))
            at += len(plain)
    return "".join(parts)


_CONVERTERS: dict[int, Convert] = {
    _BOOL: _bool,
    _BYTEA: _bytea,
    _INT2: _same,
    _INT4: _same,
    _INT8: _same,
    _OID: _same,
    _FLOAT4: _float,
    _FLOAT8: _float,
    _MONEY: _money,
    _POINT: _point,
    _DATE: _date,
    _TIMETZ: _zoned_time,
    _INTERVAL: _interval,
    _NUMERIC: _decimal,
    _BIT: _bits,
    _VARBIT: _bits,
    VECTOR: _vector,
    SPARSE_VECTOR: _sparse_vector,
    HSTORE: _hstore,
}
_UNAVAILABLE_VALUES = {
    _BYTEA: _base64(UNAVAILABLE.encode()),
    HSTORE: _hstore(f'"{UNAVAILABLE}"=>"{UNAVAILABLE}"'),
}
_UNAVAILABLE_ELEMENTS = {
    **_UNAVAILABLE_VALUES,
    _UUID: encode_basestring(str(UUID(bytes=md5(UNAVAILABLE.encode(), usedforsecurity=False).digest(), version=3))),
}
