"""The base of topic and group configurations: overrides, and the broker's values for all other options."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tailrace.config.broker import BrokerConfig
from tailrace.config.configuration import ConfigEntry, ConfigSource, ConfigSynonym, Configuration
from tailrace.config.option import Option, render_value


class OverridingConfig(Configuration):
    """Options that override those of a broker. `own_source` is the source of the overrides in DescribeConfigs."""

    own_source: ClassVar[ConfigSource]
    overrides: Mapping[str, str]
    _broker: BrokerConfig

    @classmethod
    def _build(cls, parsed: Mapping[str, Any], overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """Return the configuration with the `parsed` values of `overrides`, and the broker's for all other options."""
        self = cls.__new__(cls)
        for name, option in cls.options.items():
            self.__dict__[option.attribute] = parsed[name] if name in parsed else _inherited(option, broker)
        self.__dict__["overrides"] = MappingProxyType(dict(overrides))
        self.__dict__["_broker"] = broker
        return self

    @property
    def broker(self) -> BrokerConfig:
        """The configuration that this one inherits from."""
        return self._broker

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.overrides)})"

    def entries(self) -> Iterator[ConfigEntry]:
        """Yield the options for DescribeConfigs in the order of their names."""
        for name, option in self.options.items():
            if option.is_hidden and name not in self.overrides:
                continue
            value = render_value(self.__dict__[option.attribute])
            names = tuple(synonym.name for synonym in option.broker_synonyms)
            # Some configs of a topic, such as its throttled replicas, have no counterpart in the broker.
            synonyms = [*self._broker.synonyms(names[0], names)] if names else []
            if name in self.overrides:
                synonyms.insert(0, ConfigSynonym(name, value, self.own_source))
            yield ConfigEntry(
                name=name,
                value=value,
                source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
                is_sensitive=False,
                read_only=False,
                type=option.value_type,
                documentation=option.doc,
                synonyms=tuple(synonyms),
            )


def _inherited(option: Option[Any], broker: BrokerConfig) -> Any:
    for synonym in option.broker_synonyms:
        value = broker.value(synonym.name)
        if value is not None:
            return _convert(value, synonym.factor)
    return option.default


def _convert(value: Any, factor: int) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    # Every negative limit of a broker means no limit, which is -1 for topics.
    return value * factor if value >= 0 else -1
