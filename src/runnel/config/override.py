"""What the configurations of topics and groups share: values of their own, and the broker's where they have none."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from runnel.config.broker import BrokerConfig
from runnel.config.configuration import ConfigEntry, ConfigSource, ConfigSynonym, Configuration
from runnel.config.option import Option, render_value


class OverridingConfig(Configuration):
    """Options that override a broker's. Subclasses say under which source DescribeConfigs tells their own values."""

    own_source: ClassVar[ConfigSource]
    overrides: Mapping[str, str]
    _broker: BrokerConfig

    @classmethod
    def _build(cls, parsed: Mapping[str, Any], overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """The configuration with the `parsed` values of `overrides`, and the broker's for all other options."""
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
        """Yield every option for DescribeConfigs, in the order of names."""
        for name, option in self.options.items():
            value = render_value(self.__dict__[option.attribute])
            names = tuple(synonym.name for synonym in option.broker_synonyms)
            # A topic's throttled replicas are nobody's but its own.
            default = ConfigSynonym(name, render_value(option.default), ConfigSource.DEFAULT_CONFIG)
            synonyms = [*self._broker.synonyms(names)] if names else [default]
            if name in self.overrides:
                synonyms.insert(0, ConfigSynonym(name, value, self.own_source))
            yield ConfigEntry(
                name=name,
                value=value,
                source=synonyms[0].source,
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
    # Any negative limit of a broker means "without limit", which its topics write as -1.
    return value * factor if value >= 0 else -1
