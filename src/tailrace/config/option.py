"""The declaration of one option, from which everything else about it is derived.

An option is declared once, as a class attribute of `BrokerConfig` or `TopicConfig`:

    segment_bytes = integer("segment.bytes", 1024 * MIB, "…", check=at_least(MIB))

The declaration is used to parse text, to check values, to answer DescribeConfigs and to write
docs/CONFIGURATION.md. On a configuration object the attribute is the typed value.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, TypeVar, overload

from tailrace.base.invariant import invariant
from tailrace.config.check import Check
from tailrace.config.error import ConfigError

T = TypeVar("T")


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_URL_USER = re.compile(r"//[^\s,]*@")


class OptionType(IntEnum):
    """Kafka's types of options, with their codes in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(StrEnum):
    """When an option may change: at start only, for one broker at run time, or for all of them."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(StrEnum):
    """Kafka's own rating, which orders its documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class BrokerSynonym:
    """A broker option that is the default of a topic option; `factor` converts its unit to the topic option's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, eq=False)
class Option(Generic[T]):
    """The declaration of one option.

    `inert` is the reason why an option of Kafka is accepted without effect; the broker logs it at start.
    `is_hidden` marks options that DescribeConfigs lists only if they are set, as Kafka does with
    internal options and those that exist at run time only. So are topic options that Kafka does not have.
    """

    name: str
    value_type: OptionType
    default: T
    doc: str
    parse_text: Callable[[str], T] = field(repr=False)
    check: Check[Any] | None = None
    importance: Importance = Importance.MEDIUM
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    broker_synonyms: tuple[BrokerSynonym, ...] = ()
    inert: str | None = None
    is_hidden: bool = False

    def __set_name__(self, owner: type, attribute: str) -> None:
        invariant(attribute == self.attribute, f"option {self.name} is declared as {attribute}")

    # Configuration objects keep their values in __dict__, which takes precedence over a descriptor
    # without __set__: reading a value is as cheap as any attribute, and mypy knows its type.
    @overload
    def __get__(self, instance: None, owner: type) -> "Option[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "Option[T] | T":
        invariant(instance is None, f"{owner.__name__} has no value for {self.name}")
        return self

    @property
    def attribute(self) -> str:
        """The option's name as a Python attribute."""
        return self.name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        """Whether the value must not appear in replies, log lines and errors."""
        return self.value_type is OptionType.PASSWORD

    def parse(self, text: str) -> T:
        """Parse and check a value, or raise `ConfigError`."""
        try:
            value = self.parse_text(text.strip())
        except ValueError as error:
            raise self._error(text, str(error)) from None
        complaint = None if self.check is None else self.check.complaint(value)
        if complaint is not None:
            raise self._error(text, complaint)
        return value

    def _error(self, text: str, complaint: str) -> ConfigError:
        shown = "" if self.sensitive else f" {_without_user(text.strip())!r}"
        return ConfigError(self.name, f"Invalid value{shown} for {self.name}: {complaint}")


def _without_user(text: str) -> str:
    """Return a value without the users and passwords of URLs in it."""
    return _URL_USER.sub("//…@", text)


def render_value(value: object) -> str | None:
    """Return a value in Kafka's text form: true and false, lists joined by commas, None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def parse_boolean(text: str) -> bool:
    """Parse true or false in any case, as Kafka does."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def integer_parser(bits: int) -> Callable[[str], int]:
    """Return a parser of signed integers of that many bits: digits only, without underscores, as in Java."""
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        # The length is checked first because int() raises an error of its own for very long text.
        if not _INTEGER.fullmatch(text) or len(text) > bits or not -limit <= int(text) < limit:
            raise ValueError(f"must be a {bits}-bit whole number")
        return int(text)

    return parse


def parse_decimal(text: str) -> float:
    """Parse a finite decimal number."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("must be a number")
    return float(text)


def parse_string(text: str) -> str:
    """Return the text unchanged."""
    return text


def parse_list(text: str) -> tuple[str, ...]:
    """Split at commas and the white space around them; empty text is the empty list."""
    return tuple(part.strip() for part in text.split(",")) if text else ()
