"""One declaration per option: parsing, validation, DescribeConfigs and docs all come from it."""

from tailrace.config.alter import Alteration, AlterOperation, alter_broker_configs, alter_topic_overrides
from tailrace.config.broker import BrokerConfig, validate_dynamic_broker_configs
from tailrace.config.configuration import ConfigEntry, ConfigSource, ConfigSynonym
from tailrace.config.error import ConfigError, InvalidConfigError
from tailrace.config.listener import Endpoint
from tailrace.config.load import load_broker_config
from tailrace.config.topic import TopicConfig, validate_topic_overrides

__all__ = [
    "AlterOperation",
    "Alteration",
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigSource",
    "ConfigSynonym",
    "Endpoint",
    "InvalidConfigError",
    "TopicConfig",
    "alter_broker_configs",
    "alter_topic_overrides",
    "load_broker_config",
    "validate_dynamic_broker_configs",
    "validate_topic_overrides",
]
