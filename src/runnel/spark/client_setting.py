"""The `kafka.*` options: settings of a Kafka client, in Kafka's names.

A setting is honoured by Runnel's own consumer or producer, or it makes no difference here and is
taken so that a query written for Spark's own connector runs, or it is refused by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from runnel.client.consumer_setting import ConsumerSettings
from runnel.client.isolation import Isolation
from runnel.client.setting import ClientSettings as AnySettings
from runnel.client.setting import ProducerSettings, SettingValue
from runnel.config.error import ConfigError, InvalidConfigError
from runnel.spark.error import OptionError

PREFIX = "kafka."
BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"

TRANSACTIONAL: dict[str, SettingValue] = {"transaction.two.phase.commit.enable": True}
"""What a producer needs beside a name, so that its transactions can be prepared."""

_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Settings of buffers, metrics and groups that are not used here; with other values no row would be another one."""

_FORBIDDEN = {
    "auto.offset.reset": "set startingOffsets instead: the query knows where it is, not the consumer",
    "key.deserializer": "keys are read as bytes; decode them with DataFrame operations",
    "value.deserializer": "values are read as bytes; decode them with DataFrame operations",
    "key.serializer": "keys are written as bytes; encode them with DataFrame operations",
    "value.serializer": "values are written as bytes; encode them with DataFrame operations",
    "enable.auto.commit": "the query's checkpoint holds its position; nothing is committed to a group",
    "interceptor.classes": "interceptors are Java classes, and may change records on their way",
    "partitioner.class": "partitioners are Java classes; use the column partition",
    "transactional.id": "set option delivery to exactly-once, which names transactions itself",
    "transaction.two.phase.commit.enable": "set option delivery to exactly-once",
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to talk to the brokers, as texts by Kafka's names. Equal settings share their connections."""

    texts: tuple[tuple[str, str], ...]

    @property
    def consumer(self) -> ConsumerSettings:
        """What a reader needs of them."""
        return ConsumerSettings(None, self._of(ConsumerSettings), {})

    @property
    def producer(self) -> dict[str, str]:
        """What a producer takes of them."""
        return self._of(ProducerSettings)

    def check_transactional(self) -> None:
        """Raise `OptionError` for a setting that transactions cannot have."""
        try:
            ProducerSettings(None, {**self.producer, **TRANSACTIONAL, "transactional.id": "any"}, {})
        except ConfigError as error:
            problem = error.problems[0] if isinstance(error, InvalidConfigError) else error
            raise OptionError("delivery", f"exactly-once cannot be: {problem.message}") from None

    @property
    def admin(self) -> dict[str, str]:
        """What every client takes of them: how to reach the brokers."""
        return self._of(AnySettings)

    def with_isolation(self, level: str) -> "ClientSettings":
        """The same with another isolation.level."""
        return ClientSettings(tuple((dict(self.texts) | {"isolation.level": level}).items()))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that the user gave."""
        return dict(self.texts)["bootstrap.servers"]

    @property
    def isolation(self) -> Isolation:
        """Whether records of transactions that are open or aborted are read."""
        return Isolation[self.consumer.isolation_level.upper()]

    def _of(self, kind: type[AnySettings]) -> dict[str, str]:
        return {"client.id": "runnel-spark"} | {name: text for name, text in self.texts if name in kind.options}


def parse_client_settings(options: Mapping[str, str]) -> ClientSettings:
    """The settings among some options, whose names are in lower case; raises `OptionError`."""
    texts = {}
    for option, text in sorted(options.items()):
        name = option.removeprefix(PREFIX)
        if name in _FORBIDDEN:
            raise OptionError(option, f"it is not allowed; {_FORBIDDEN[name]}")
        if name in ConsumerSettings.options.keys() | ProducerSettings.options.keys():
            if name not in _WITHOUT_EFFECT:
                texts[name] = text.strip()
        elif name.startswith(("sasl.", "ssl.", "security.")):
            raise OptionError(option, "it is not supported yet")
        elif name not in _WITHOUT_EFFECT:
            raise OptionError(option, "no such setting of a Kafka client is known")
    if not texts.get("bootstrap.servers"):
        raise OptionError(BOOTSTRAP_SERVERS, "it is missing; set it to the brokers, such as localhost:9092")
    settings = ClientSettings(tuple(texts.items()))
    try:
        _ = settings.consumer, ProducerSettings(None, settings.producer, {})
    except ConfigError as error:
        problem = error.problems[0] if isinstance(error, InvalidConfigError) else error
        raise OptionError(PREFIX + problem.name, problem.message) from None
    return settings
