"""Options as text, and how normalisation sorts and merges them."""

import math
import re
import struct
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from tailrace.base.schema_limits import PROTOBUF_CHARACTERS_MAX
from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import Field, Literal, Message, Option, OptionValue
from tailrace.schema.protobuf.scope import Scope

_CONFLUENT = "confluent."
_ESCAPES = str.maketrans(
    {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    | {"\\": "\\\\", "'": "\\'", '"': '\\"'}
)
_HEX_OR_OCTAL = re.compile(r"(-?)0[xX]?([0-9a-fA-F]+)")
_INTEGER = re.compile(r"(-?[0-9]+)[lL]?")
_DECIMAL = re.compile(r"(-?(?:[0-9]+\.?(?P<decimals>[0-9]*)|\.(?P<only>[0-9]+))(?:[eE]-?[0-9]{1,3})?)[fFdD]?")
_FLOAT_DECIMALS_MAX = 7
_FLOAT_MAX = 3.4028235677973366e38
_WHOLE = 1e15  # larger numbers are written with the digits that tell them from their neighbours, and zeros
_PRECISION = 400


def indented(text: str) -> str:
    """Return the lines of a text, each two blanks further to the right. Raises InvalidSchema if they get too long."""
    lines = text.rstrip("\n").split("\n")
    if len(text) + 2 * len(lines) > PROTOBUF_CHARACTERS_MAX:
        raise InvalidSchema(
            f"with its lines indented, the Protobuf schema has more than {PROTOBUF_CHARACTERS_MAX} characters; "
            "nest messages and the values of options less deeply"
        )
    return "".join(f"  {line}\n" for line in lines)


def quoted(text: str) -> str:
    """Return a string between quotes, with escapes as Confluent writes them."""
    return f'"{text.translate(_ESCAPES)}"'


def normal_number(text: str) -> str:
    """Return a number as normalisation writes it: decimal, with at most three digits after the point.

    Confluent reads a number of few decimals as a float of 32 bits, and so does this function.
    """
    if found := _INTEGER.fullmatch(text):
        text = found[1]
        if not text.lstrip("-").startswith("0"):
            return text
    if found := _HEX_OR_OCTAL.fullmatch(text):
        try:
            return str(int(found[1] + found[2], 16 if "x" in text.lower() else 8))
        except ValueError:
            return text
    if text in {"0", "-0"}:
        return "0"
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return text
    number = float(found[1])
    if len(found["decimals"] or found["only"] or "") <= _FLOAT_DECIMALS_MAX and abs(number) < _FLOAT_MAX:
        number = struct.unpack("<f", struct.pack("<f", number))[0] or number
    if not math.isfinite(number):
        return text
    exact = Decimal(number) if abs(number) < _WHOLE else Decimal(repr(number))
    with localcontext(prec=_PRECISION):
        shown = f"{exact.quantize(Decimal('0.001'), ROUND_HALF_EVEN):f}"
    return shown.rstrip("0").rstrip(".")


class OptionText:
    """Writes options: as they are, in normal form, or without those that a client may not know."""

    def __init__(self, scope: Scope, *, normalize: bool = False, ignore_extensions: bool = False) -> None:
        self._scope = scope
        self._normalize = normalize
        self._ignore_extensions = ignore_extensions
        self._members: dict[int, dict[str, Field]] = {}
        """The fields of messages that were merged, by their names."""

    def selected(self, options: Sequence[Option]) -> list[Option]:
        """Return the options to write, in their order."""
        chosen = list(options)
        if self._ignore_extensions:
            chosen = [option for option in chosen if not option.is_custom or option.name.startswith(_CONFLUENT)]
        if self._normalize and chosen:
            chosen = self._normal(chosen)
        return chosen

    def lines(self, options: Sequence[Option]) -> str:
        """Return one option declaration after the other."""
        return "".join(f"option {self.one(option)};\n" for option in self.selected(options))

    def in_brackets(self, options: Sequence[Option]) -> str:
        """Return options as they follow a field or a constant; nothing if there are none."""
        chosen = self.selected(options)
        return f" {self._bracketed([self.one(option) for option in chosen])}" if chosen else ""

    def one(self, option: Option) -> str:
        """Return the name of an option and its value."""
        name = f"({option.name})" if option.is_custom else option.name
        value = option.value
        if isinstance(value, Option):
            return f"{name}.{self.one(value)}"
        if isinstance(value, list):
            return f"{name} = {self._bracketed([self._value(item) for item in value])}"
        return f"{name} = {self._value(value)}"

    def _bracketed(self, items: list[str]) -> str:
        if len(items) == 1:
            return f"[{items[0]}]"
        return "[\n" + _separated(items) + "]"

    def _value(self, value: OptionValue) -> str:
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, Literal):
            return normal_number(value.text) if value.is_number and self._normalize else value.text
        if isinstance(value, dict):
            return "{\n" + self._message(value) + "}"
        if isinstance(value, Option):
            return self.one(value)
        if self._normalize and len(value) == 1:
            return self._value(value[0])
        return "[\n" + _separated([self._value(item) for item in value]) + "]"

    def _message(self, values: dict[str, OptionValue]) -> str:
        entries: Iterable[tuple[str, OptionValue]] = values.items()
        if self._normalize:
            kept = {self._full_key(key): value for key, value in reversed(values.items()) if value != []}
            entries = sorted(kept.items())
        return _separated([f"{key}: {self._value(value)}" for key, value in entries])

    def _full_key(self, key: str) -> str:
        if key.startswith("["):
            extension = self._scope.extension(key[1:-1])
            if extension is not None:
                return f"[{extension.full_name}]"
        return key

    def _normal(self, options: list[Option]) -> list[Option]:
        """Return options with full names and sorted by them; settings of one message are merged into one option."""
        by_name: dict[str, list[Option]] = {}
        for option in sorted(map(self._with_full_name, options), key=lambda option: option.name):
            by_name.setdefault(option.name, []).append(option)
        chosen: list[Option] = []
        for name, group in by_name.items():
            extension = self._scope.extension(f".{name.removeprefix('.')}")
            if extension is None or extension.field.label == "repeated":
                chosen += group
                continue
            chosen.append(self._merged(extension.field, group))
        return chosen

    def _with_full_name(self, option: Option) -> Option:
        extension = self._scope.extension(option.name) if option.is_custom else None
        return option if extension is None else as_message(Option(extension.full_name, option.value, True))

    def _merged(self, field: Field, group: Sequence[Option]) -> Option:
        last = group[-1]
        values = [group[0].value, *(as_message(option).value for option in group[1:])]
        return group[0] if len(group) == 1 else Option(last.name, self._last_message(field, values), last.is_custom)

    def _last_message(self, field: Field, values: Sequence[OptionValue]) -> OptionValue:
        """Return the last of several values, merged with the messages directly before it if it is one."""
        messages: list[dict[str, OptionValue]] = []
        for value in reversed(values):
            if not isinstance(value, dict):
                break
            messages.append(value)
        return self._merged_messages(field, messages[::-1]) if len(messages) > 1 else values[-1]

    def _merged_messages(self, field: Field, messages: Sequence[dict[str, OptionValue]]) -> dict[str, OptionValue]:
        """Merge messages all at once: one after the other, the items of a list would be compared again each time."""
        by_key: dict[str, list[OptionValue]] = {}
        for message in messages:
            for key, value in message.items():
                by_key.setdefault(key, []).append(value)
        return {key: self._merged_values(self._member(field, key), values) for key, values in by_key.items()}

    def _merged_values(self, field: Field | None, values: Sequence[OptionValue]) -> OptionValue:
        if len(values) == 1:
            return values[0]
        if field is None or field.label == "repeated":
            return joined(values)
        return values[-1] if self._message_of(field) is None else self._last_message(field, values)

    def _member(self, field: Field, name: str) -> Field | None:
        message = self._message_of(field)
        if message is None:
            return None
        if id(message) not in self._members:
            every = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
            self._members[id(message)] = {field.name: field for field in reversed(every)}
        return self._members[id(message)].get(name)

    def _message_of(self, field: Field) -> Message | None:
        found = self._scope.type(field.type)
        return found.element if found is not None and isinstance(found.element, Message) else None


def as_message(option: Option) -> Option:
    """Return `(name).field = value` as `(name) = {field: value}`; any other option as it is."""
    return Option(option.name, _in_braces(option.value), option.is_custom)


def _in_braces(value: OptionValue) -> OptionValue:
    return {value.name: _in_braces(value.value)} if isinstance(value, Option) else value


def joined(values: Iterable[OptionValue]) -> OptionValue:
    """Return the items of several values as one list without duplicates."""
    return list({repr(item): item for value in values for item in _items(value)}.values())


def _items(value: OptionValue) -> list[OptionValue]:
    return value if isinstance(value, list) else [value]


def _separated(items: list[str]) -> str:
    """Return items on lines of their own, with a comma after all but the last."""
    last = len(items) - 1
    return "".join(indented(item + ("," if index < last else "")) for index, item in enumerate(items))
