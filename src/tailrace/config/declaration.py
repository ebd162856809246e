"""The functions that declare options: one for each Kafka type, and a nullable form where Kafka has null.

Keyword arguments are those of `Option`: check, importance, update_mode, broker_synonyms, inert, is_hidden.
"""

from typing import Any, TypedDict, Unpack

from tailrace.config.check import Check
from tailrace.config.option import (
    BrokerSynonym,
    Importance,
    Option,
    OptionType,
    UpdateMode,
    integer_parser,
    parse_boolean,
    parse_decimal,
    parse_list,
    parse_string,
)


class Details(TypedDict, total=False):
    """The optional arguments of a declaration."""

    check: Check[Any]
    importance: Importance
    update_mode: UpdateMode
    broker_synonyms: tuple[BrokerSynonym, ...]
    inert: str
    is_hidden: bool


def boolean(name: str, default: bool, doc: str, **details: Unpack[Details]) -> Option[bool]:
    """Declare an option that is true or false."""
    return Option(name, OptionType.BOOLEAN, default, doc, parse_boolean, **details)


def integer(name: str, default: int, doc: str, **details: Unpack[Details]) -> Option[int]:
    """Declare a 32-bit number."""
    return Option(name, OptionType.INT, default, doc, integer_parser(32), **details)


def nullable_integer(name: str, doc: str, **details: Unpack[Details]) -> Option[int | None]:
    """Declare a 32-bit number that is not set by default."""
    return Option(name, OptionType.INT, None, doc, integer_parser(32), **details)


def short(name: str, default: int, doc: str, **details: Unpack[Details]) -> Option[int]:
    """Declare a 16-bit number."""
    return Option(name, OptionType.SHORT, default, doc, integer_parser(16), **details)


def long(name: str, default: int, doc: str, **details: Unpack[Details]) -> Option[int]:
    """Declare a 64-bit number."""
    return Option(name, OptionType.LONG, default, doc, integer_parser(64), **details)


def nullable_long(name: str, doc: str, **details: Unpack[Details]) -> Option[int | None]:
    """Declare a 64-bit number that is not set by default."""
    return Option(name, OptionType.LONG, None, doc, integer_parser(64), **details)


def double(name: str, default: float, doc: str, **details: Unpack[Details]) -> Option[float]:
    """Declare a decimal number."""
    return Option(name, OptionType.DOUBLE, default, doc, parse_decimal, **details)


def string(name: str, default: str, doc: str, **details: Unpack[Details]) -> Option[str]:
    """Declare a text."""
    return Option(name, OptionType.STRING, default, doc, parse_string, **details)


def nullable_string(name: str, doc: str, **details: Unpack[Details]) -> Option[str | None]:
    """Declare a text that is not set by default."""
    return Option(name, OptionType.STRING, None, doc, parse_string, **details)


def string_list(name: str, default: tuple[str, ...], doc: str, **details: Unpack[Details]) -> Option[tuple[str, ...]]:
    """Declare a comma-separated list."""
    return Option(name, OptionType.LIST, default, doc, parse_list, **details)


def nullable_string_list(name: str, doc: str, **details: Unpack[Details]) -> Option[tuple[str, ...] | None]:
    """Declare a comma-separated list that is not set by default."""
    return Option(name, OptionType.LIST, None, doc, parse_list, **details)


def password(name: str, doc: str, **details: Unpack[Details]) -> Option[str | None]:
    """Declare a secret: it is never shown."""
    return Option(name, OptionType.PASSWORD, None, doc, parse_string, **details)
