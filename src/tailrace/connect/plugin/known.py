"""The connector plugins, and how their names are resolved."""

from tailrace.connect.plugin import debezium_postgres, file_stream, jdbc_sink, jdbc_source, own, s3_sink
from tailrace.connect.plugin.base import Plugin
from tailrace.connect.plugin.connector_setting import CONNECTOR_CLASS
from tailrace.connect.plugin.error import ConfigError, Problem

PLUGINS: tuple[Plugin, ...] = (
    jdbc_sink.SINK,
    s3_sink.SINK,
    file_stream.SINK,
    own.SINK,
    jdbc_source.SOURCE,
    debezium_postgres.SOURCE,
    file_stream.SOURCE,
    own.SOURCE,
)


def find_plugin(name: str) -> Plugin:
    """Return a plugin by its full name, its last part, or that without the ending Connector.

    Raises `ConfigError` with Kafka Connect's message.
    """
    for plugin in PLUGINS:
        if name in plugin.names:
            return plugin
    available = ", ".join(plugin.class_name for plugin in PLUGINS)
    message = (
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: {available}"
    )
    raise ConfigError([Problem(CONNECTOR_CLASS, message)], message)
