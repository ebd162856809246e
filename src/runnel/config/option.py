"""One option: its name, type, default and words, from which everything else about it is derived.

An option is declared once, as a class attribute of `BrokerConfig` or `TopicConfig`:

    segment_bytes = integer("segment.bytes", 1024 * MIB, "…", check=at_least(MIB))

The same declaration parses text, refuses bad values, answers DescribeConfigs and writes its
row in docs/CONFIGURATION.md. On a configuration object the attribute is the typed value.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, TypeVar, overload

from runnel.base.invariant import invariant
from runnel.config.check import Check
from runnel.config.error import ConfigError

T = TypeVar("T")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_COMMA = re.compile(r"\s*,\s*")


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
    """A broker option that gives a topic option its default; `factor` turns its unit into the topic option's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, eq=False)
class Option(Generic[T]):
    """The declaration of one option.

    `inert` is the reason why an option that Kafka files commonly hold is accepted but changes
    nothing in Runnel; such an option is announced in the log at start, never silently dropped.
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

    def __set_name__(self, owner: type, attribute: str) -> None:
        invariant(attribute == self.attribute, f"option {self.name} is declared as {attribute}")

    # Configuration objects keep their values in __dict__, which goes before a descriptor without
    # __set__: reading a value costs what any attribute costs, and mypy still knows its type.
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
        """Whether its value must never be shown, in a reply, a log line or an error."""
        return self.value_type is OptionType.PASSWORD

    def parse(self, text: str) -> T:
        """Return the value that `text` stands for, or raise `ConfigError`."""
        try:
            value = self.parse_text(text.strip())
        except ValueError as error:
            raise self._error(text, str(error)) from None
        complaint = None if self.check is None else self.check.complaint(value)
        if complaint is not None:
            raise self._error(text, complaint)
        return value

    def _error(self, text: str, complaint: str) -> ConfigError:
        shown = "" if self.sensitive else f" {text.strip()!r}"
        return ConfigError(self.name, f"Invalid value{shown} for {self.name}: {complaint}")


def render_value(value: object) -> str | None:
    """Return an option value in Kafka's text form: true and false, lists joined by commas, null as None."""
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
    """Return a parser of signed integers of that many bits: digits only, no underscores, as Java reads them."""
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        # The length is checked first because int() refuses, with its own error, what is very long.
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
    """Take text as it is."""
    return text


def parse_list(text: str) -> tuple[str, ...]:
    """Split at commas, with white space around them; empty text is the empty list."""
    return tuple(_COMMA.split(text)) if text else ()
