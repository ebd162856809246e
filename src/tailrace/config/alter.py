"""The operations of IncrementalAlterConfigs on the configs of a topic, a broker or a group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tailrace.config.broker import BrokerConfig, known_option, name_problems, validate_dynamic_broker_configs
from tailrace.config.configuration import raise_problems
from tailrace.config.error import ConfigError, RequestError
from tailrace.config.group import group_option, validate_group_overrides
from tailrace.config.option import Option, OptionType, parse_list, render_value
from tailrace.config.topic import topic_option, validate_topic_overrides


class AlterOperation(IntEnum):
    """An operation on a config, with Kafka's code."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of one config; only DELETE has no value."""

    name: str
    operation: AlterOperation
    value: str | None = None


def alter_topic_overrides(
    current: Mapping[str, str], alterations: Sequence[Alteration], broker: BrokerConfig
) -> dict[str, str]:
    """Return a topic's overrides after the alterations, or raise `ConfigError` and change nothing."""
    altered = dict(current)
    for alteration in alterations:
        _alter(altered, alteration, topic_option)
    validate_topic_overrides(altered, broker)
    return altered


def alter_group_overrides(
    current: Mapping[str, str], alterations: Sequence[Alteration], broker: BrokerConfig
) -> dict[str, str]:
    """Return a group's overrides after the alterations, or raise `ConfigError` and change nothing."""
    altered = dict(current)
    for alteration in alterations:
        _alter(altered, alteration, group_option)
    validate_group_overrides(altered, broker)
    return altered


def alter_broker_configs(
    current: Mapping[str, str], alterations: Sequence[Alteration], *, per_broker: bool
) -> dict[str, str]:
    """Return the dynamic configs of one broker or of all brokers after the alterations, or raise `ConfigError`."""
    altered = dict(current)
    for alteration in alterations:
        _check_minimum(alteration, per_broker=per_broker)
        _alter(altered, alteration, _broker_option)
    validate_dynamic_broker_configs(altered, per_broker=per_broker)
    return altered


def _check_minimum(alteration: Alteration, *, per_broker: bool) -> None:
    """Refuse, as Kafka does with eligible leader replicas, a `min.insync.replicas` that is not the cluster's."""
    name = BrokerConfig.min_insync_replicas.name
    if alteration.name != name:
        return
    if per_broker:
        raise ConfigError(name, f"{name} cannot be set for one broker: eligible leader replicas need one value for all")
    if alteration.operation is AlterOperation.DELETE:
        raise ConfigError(name, f"{name} cannot be removed for the cluster: eligible leader replicas need it")


def _broker_option(name: str) -> Option[Any]:
    raise_problems(list(name_problems({name: ""})))
    return known_option(name)


def _alter(texts: dict[str, str], alteration: Alteration, find_option: Callable[[str], Option[Any]]) -> None:
    name, operation, value = alteration.name, alteration.operation, alteration.value
    if operation is AlterOperation.DELETE:
        texts.pop(name, None)  # whatever its name: as in Kafka, removing a config that is not set is no error
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
        removed = set(change)
        return [item for item in items if item not in removed]
    known = set(items)
    return [*items, *(item for item in dict.fromkeys(change) if item not in known)]
