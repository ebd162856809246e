"""The operations of IncrementalAlterConfigs on the texts that a topic or a broker has set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from runnel.config.broker import BrokerConfig, broker_options, name_problems, validate_dynamic_broker_configs
from runnel.config.configuration import raise_problems
from runnel.config.error import ConfigError, RequestError
from runnel.config.group import group_option, validate_group_overrides
from runnel.config.option import Option, OptionType, parse_list, render_value
from runnel.config.topic import topic_option, validate_topic_overrides


class AlterOperation(IntEnum):
    """What to do with a value, with Kafka's codes."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of one option; only DELETE has no value."""

    name: str
    operation: AlterOperation
    value: str | None = None


def alter_topic_overrides(current: Mapping[str, str], alterations: Sequence[Alteration]) -> dict[str, str]:
    """Return a topic's overrides after the alterations, or raise `ConfigError` and change nothing."""
    altered = dict(current)
    for alteration in alterations:
        _alter(altered, alteration, topic_option)
    validate_topic_overrides(altered)
    return altered


def alter_group_overrides(
    current: Mapping[str, str], alterations: Sequence[Alteration], broker: BrokerConfig
) -> dict[str, str]:
    """Return a group's own options after the alterations, or raise `ConfigError` and change nothing."""
    altered = dict(current)
    for alteration in alterations:
        _alter(altered, alteration, group_option)
    validate_group_overrides(altered, broker)
    return altered


def alter_broker_configs(
    current: Mapping[str, str], alterations: Sequence[Alteration], *, per_broker: bool
) -> dict[str, str]:
    """Return the run-time options of one broker, or of all of them, after the alterations, or raise `ConfigError`."""
    altered = dict(current)
    for alteration in alterations:
        _alter(altered, alteration, _broker_option)
    validate_dynamic_broker_configs(altered, per_broker=per_broker)
    return altered


def _broker_option(name: str) -> Option[Any]:
    raise_problems(list(name_problems({name: ""})))
    return broker_options()[name]


def _alter(texts: dict[str, str], alteration: Alteration, find_option: Callable[[str], Option[Any]]) -> None:
    name, operation, value = alteration.name, alteration.operation, alteration.value
    if operation is AlterOperation.DELETE:
        texts.pop(name, None)  # whatever its name: what is not set is no error, in Kafka either
        return
    option = find_option(name)
    if value is None:
        raise RequestError(name, f"Null value not supported for {name} with {operation.name}")
    if operation is AlterOperation.SET:
        texts[name] = value
        return
    if option.value_type is not OptionType.LIST:
        raise ConfigError(name, f"Can't {operation.name} to {name}: its type is not LIST")
    current = texts.get(name, render_value(option.default) or "")
    texts[name] = ",".join(_combine(parse_list(current), operation, parse_list(value)))


def _combine(items: Sequence[str], operation: AlterOperation, change: Sequence[str]) -> list[str]:
    if operation is AlterOperation.SUBTRACT:
        return [item for item in items if item not in change]
    return [*items, *(item for item in dict.fromkeys(change) if item not in items)]
