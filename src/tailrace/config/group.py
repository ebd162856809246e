"""The options of a group, and their values from its overrides and the broker's defaults."""

from collections.abc import Mapping
from typing import Any

from tailrace.config.broker import BrokerConfig
from tailrace.config.check import at_least
from tailrace.config.configuration import ConfigSource, parse_options, raise_problems, suggestion
from tailrace.config.declaration import integer
from tailrace.config.error import ConfigError
from tailrace.config.option import BrokerSynonym, Option
from tailrace.config.override import OverridingConfig
from tailrace.config.unit import SECOND_MS

_OTHER_KINDS = ("share.", "streams.")


class GroupConfig(OverridingConfig):
    """The config of one group; build it with `resolve`."""

    own_source = ConfigSource.DYNAMIC_GROUP_CONFIG

    consumer_assignment_interval_ms = integer(
        "consumer.assignment.interval.ms",
        SECOND_MS,
        "Shortest time between two assignments of the group.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("group.consumer.assignment.interval.ms"),),
    )
    consumer_heartbeat_interval_ms = integer(
        "consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        "Interval between two heartbeats of a member.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("group.consumer.heartbeat.interval.ms"),),
    )
    consumer_session_timeout_ms = integer(
        "consumer.session.timeout.ms",
        45 * SECOND_MS,
        "Time without a heartbeat after which a member is removed.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("group.consumer.session.timeout.ms"),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "GroupConfig":
        """Return a group's configuration: its own values, then the broker's, or raise `ConfigError`.

        A value that is outside the broker's bounds, because they changed, is moved to the nearest bound.
        """
        parsed = {name: _nearest(name, value, broker) for name, value in _parse(overrides).items()}
        return cls._build(parsed, overrides, broker)


def group_option(name: str) -> Option[Any]:
    """Return the group option of that name, or raise `ConfigError` with the reason why there is none."""
    option = GroupConfig.options.get(name)
    if option is not None:
        return option
    if name.startswith(_OTHER_KINDS):
        raise ConfigError(name, f"{name}: share groups and streams groups are not supported")
    raise ConfigError(name, f"Unknown group config name: {name}{suggestion(name, GroupConfig.options)}")


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise `ConfigError` for a name or value that is not valid for a group of this broker."""
    problems = []
    for name, value in _parse(overrides).items():
        lowest, highest = _bounds(name)
        if value < broker.value(lowest):
            problems.append(ConfigError(name, f"{name} must be greater than or equal to {lowest}"))
        elif value > broker.value(highest):
            problems.append(ConfigError(name, f"{name} must be less than or equal to {highest}"))
    raise_problems(problems)
    own = GroupConfig.resolve(overrides, broker)
    if own.consumer_heartbeat_interval_ms >= own.consumer_session_timeout_ms:
        name = "consumer.session.timeout.ms"
        raise ConfigError(name, f"{name} must be greater than consumer.heartbeat.interval.ms")


def _parse(overrides: Mapping[str, str]) -> dict[str, Any]:
    for name in overrides:
        group_option(name)
    return parse_options(GroupConfig.options, overrides)


def _bounds(name: str) -> tuple[str, str]:
    """The broker options that bound a group's value."""
    rest = name.removeprefix("consumer.")
    return f"group.consumer.min.{rest}", f"group.consumer.max.{rest}"


def _nearest(name: str, value: int, broker: BrokerConfig) -> int:
    lowest, highest = (broker.value(bound) for bound in _bounds(name))
    return int(min(max(value, lowest), highest))
