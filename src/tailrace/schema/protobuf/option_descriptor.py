"""Options of declarations written into descriptors: the standard ones and Confluent's `meta`.

Custom options stay in the text only, as in Confluent's registry: a client that needs them has the .proto file.
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import Literal, Option, OptionValue
from tailrace.schema.protobuf.meta import meta_name, meta_of
from tailrace.schema.protobuf.option_text import as_message
from tailrace.schema.protobuf.scope import Scope

_BOOLS = {"true": True, "false": False}


class OptionWriter:
    """Writes options of one file. Only files of an edition may set features."""

    def __init__(self, scope: Scope, *, has_edition: bool) -> None:
        self._scope = scope
        self._has_edition = has_edition

    def write(self, target: Any, options: Iterable[Option], place: str) -> None:
        """Write the options of a declaration into the options of its descriptor; unknown ones are left out."""
        for option in map(as_message, options):
            if option.is_custom:
                self._write_meta(target, option, place)
                continue
            name, *inner = option.name.split(".")
            if name == "features" and not self._has_edition:
                continue
            value = option.value
            for part in reversed(inner):
                value = {part: value}
            _set(target, name, value, f"{place}: option {option.name}")

    def _write_meta(self, target: Any, option: Option, place: str) -> None:
        extension = self._scope.extension(option.name)
        name = option.name.removeprefix(".") if extension is None else extension.full_name
        if name == meta_name(target) and isinstance(option.value, dict):
            _fill(meta_of(target), option.value, f"{place}: option {name}")


def _fill(message: Any, values: dict[str, OptionValue], place: str) -> None:
    message.SetInParent()
    for name, value in values.items():
        _set(message, name, value, f"{place}.{name}")


def _set(message: Any, name: str, value: OptionValue, place: str) -> None:
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return
    is_message = field.type == FieldDescriptor.TYPE_MESSAGE
    if field.is_repeated:
        for item in value if isinstance(value, list) else [value]:
            if is_message:
                _fill(getattr(message, name).add(), _message(item, place), place)
            else:
                getattr(message, name).append(_scalar(field, item, place))
    elif is_message:
        _fill(getattr(message, name), _message(value, place), place)
    else:
        setattr(message, name, _scalar(field, value, place))


def _message(value: OptionValue, place: str) -> dict[str, OptionValue]:
    if isinstance(value, dict):
        return value
    raise InvalidSchema(f"{place} must be a message in braces")


def _scalar(field: Any, value: OptionValue, place: str) -> object:
    if field.type == FieldDescriptor.TYPE_STRING:
        if isinstance(value, str):
            return value
        raise InvalidSchema(f"{place} must be a quoted string")
    text = value.text if isinstance(value, Literal) else ""
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text in _BOOLS:
            return _BOOLS[text]
        raise InvalidSchema(f"{place} must be true or false")
    if field.type == FieldDescriptor.TYPE_ENUM:
        constant = field.enum_type.values_by_name.get(text)
        if constant is not None:
            return constant.number
        raise InvalidSchema(f"{place} must be one of {', '.join(field.enum_type.values_by_name)}")
    try:
        number = int(text, 0)
    except ValueError:
        raise InvalidSchema(f"{place} must be an integer") from None
    if not -(2**31) <= number < 2**31:
        raise InvalidSchema(f"{place} does not fit into 32 bits")
    return number
