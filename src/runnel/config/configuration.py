"""What broker and topic configurations share: typed values that never change, and answers for DescribeConfigs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NoReturn

from runnel.base.invariant import invariant
from runnel.config.error import ConfigError, InvalidConfigError
from runnel.config.option import Option, OptionType


class ConfigSource(IntEnum):
    """Where a value comes from, with Kafka's codes in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the places that could give an option its value, under the name it has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option as DescribeConfigs tells it; a sensitive one has no value."""

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
    """Parse texts whose names are all declared; raise everything that is wrong, with the `problems` already known."""
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
    """Raise what was found wrong: a single problem as itself, several as one."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidConfigError(problems)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a did-you-mean ending for an unknown name, or nothing when no known name is near."""
    import difflib  # only a wrong name needs it, and a start should be quick

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""
