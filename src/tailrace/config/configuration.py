"""The base of broker, topic and group configurations: immutable typed values, and entries for DescribeConfigs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NoReturn

from tailrace.base.invariant import invariant
from tailrace.base.request_limits import SUGGESTION_NAME_LENGTH_MAX
from tailrace.config.error import ConfigError, InvalidConfigError
from tailrace.config.option import Option, OptionType


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's code in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the places that may set the value of an option, with the name of the option there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option in DescribeConfigs; a sensitive one has no value."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: OptionType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


class Configuration:
    """An immutable set of option values.

    Subclasses declare their options as class attributes; an instance has the value of each
    under the same attribute.
    """

    options: ClassVar[Mapping[str, Option[Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = [
            value for base in reversed(cls.__mro__) for value in vars(base).values() if isinstance(value, Option)
        ]
        cls.options = index_options(declared)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot change: build another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot change: build another one")


def index_options(declared: Iterable[Option[Any]]) -> dict[str, Option[Any]]:
    """Return options by name in alphabetical order; a name can be declared only once."""
    options: dict[str, Option[Any]] = {}
    for option in declared:
        invariant(option.name not in options, f"option {option.name} is declared twice")
        options[option.name] = option
    return dict(sorted(options.items()))


def parse_options(
    options: Mapping[str, Option[Any]], texts: Mapping[str, str], problems: Sequence[ConfigError] = ()
) -> dict[str, Any]:
    """Parse texts of declared options; raise all errors together with the `problems` already known."""
    values: dict[str, Any] = {}
    found = list(problems)
    for name, text in texts.items():
        try:
            values[name] = options[name].parse(text)
        except ConfigError as error:
            found.append(error)
    raise_problems(found)
    return values


def raise_problems(problems: Sequence[ConfigError]) -> None:
    """Raise the problems, several as one error."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidConfigError(problems)


def suggestion(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a "did you mean" for an unknown name, or nothing if no known name is similar or the name is too long.

    The `prefix` is the part of the names that is not compared.
    """
    import difflib  # imported only for a wrong name, so that a start is quick

    if len(name) > SUGGESTION_NAME_LENGTH_MAX:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""
