"""The `kafka.*` options: configs of a Kafka client, in Kafka's names.

A config is used by Tailrace's consumer or producer, or it is accepted without effect, so that queries written for
Spark's own connector run, or it is rejected by name.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.security.setting import IGNORED
from tailrace.client.setting import ClientSettings as AnySettings
from tailrace.client.setting import ProducerSettings, SettingValue
from tailrace.config.error import ConfigError, InvalidConfigError
from tailrace.spark.error import OptionError

log = logging.getLogger("tailrace.spark.option")  # these lines are about options
_logged: set[str] = set()

PREFIX = "kafka."
BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"

TRANSACTIONAL: dict[str, SettingValue] = {"transaction.two.phase.commit.enable": True}
"""The configs of a producer, besides its transactional id, for prepared transactions."""

_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.rack",
        "config.providers",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
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
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Configs of buffers, metrics and groups that are not used here and cannot change any row."""

_FORBIDDEN = {
    "auto.offset.reset": "set startingOffsets instead; the query holds its position, not the consumer",
    "key.deserializer": "keys are read as bytes; decode them with DataFrame operations",
    "value.deserializer": "values are read as bytes; decode them with DataFrame operations",
    "key.serializer": "keys are written as bytes; encode them with DataFrame operations",
    "value.serializer": "values are written as bytes; encode them with DataFrame operations",
    "enable.auto.commit": "the query's checkpoint holds its position; nothing is committed to a group",
    "interceptor.classes": "interceptors are Java classes, which cannot run here",
    "partitioner.class": "partitioners are Java classes; use the column partition",
    "transactional.id": "set option delivery to exactly-once, which names transactions itself",
    "transaction.two.phase.commit.enable": "set option delivery to exactly-once",
}


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """Client configs as text, by Kafka's names. Equal configs share connections; their repr has no values."""

    texts: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(name for name, _ in self.texts)})"

    @property
    def consumer(self) -> ConsumerSettings:
        """The configs of a reader."""
        return ConsumerSettings(None, self._of(ConsumerSettings), {})

    @property
    def producer(self) -> dict[str, str]:
        """The configs of a producer."""
        return self._of(ProducerSettings)

    def check_transactional(self) -> None:
        """Raise `OptionError` for a config that transactions do not allow."""
        try:
            ProducerSettings(None, {**self.producer, **TRANSACTIONAL, "transactional.id": "any"}, {})
        except ConfigError as error:
            problem = error.problems[0] if isinstance(error, InvalidConfigError) else error
            raise OptionError("delivery", f"exactly-once is not possible: {problem.message}") from None

    @property
    def admin(self) -> dict[str, str]:
        """The configs that all clients share."""
        return self._of(AnySettings)

    def with_isolation(self, level: str) -> "ClientSettings":
        """Return these configs with another isolation.level."""
        return ClientSettings(tuple((dict(self.texts) | {"isolation.level": level}).items()))

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses."""
        return dict(self.texts)["bootstrap.servers"]

    @property
    def isolation(self) -> Isolation:
        """The isolation level of readers."""
        return Isolation[self.consumer.isolation_level.upper()]

    def _of(self, kind: type[AnySettings]) -> dict[str, str]:
        return {"client.id": "tailrace-spark"} | {name: text for name, text in self.texts if name in kind.options}


def log_without_effect(option: str) -> None:
    """Log that an accepted option has no effect, once in each process: Spark has options read for every batch."""
    if option not in _logged:
        _logged.add(option)
        log.warning("option %s has no effect here", option)


def parse_client_settings(options: Mapping[str, str]) -> ClientSettings:
    """Parse options with lower-case names; raises `OptionError`."""
    texts = {}
    for option, text in sorted(options.items()):
        name = option.removeprefix(PREFIX)
        if name in _FORBIDDEN:
            raise OptionError(option, f"it is not allowed; {_FORBIDDEN[name]}")
        if name in ConsumerSettings.options.keys() | ProducerSettings.options.keys():
            if name not in _WITHOUT_EFFECT:
                texts[name] = text.strip()
            else:
                log_without_effect(option)
        elif name in _WITHOUT_EFFECT | IGNORED:
            log_without_effect(option)
        else:
            raise OptionError(option, "Kafka's clients have no config of this name")
    if not texts.get("bootstrap.servers"):
        raise OptionError(BOOTSTRAP_SERVERS, "it is missing; set it to the brokers, such as localhost:9092")
    settings = ClientSettings(tuple(texts.items()))
    try:
        _ = settings.consumer, ProducerSettings(None, settings.producer, {})
    except ConfigError as error:
        problem = error.problems[0] if isinstance(error, InvalidConfigError) else error
        raise OptionError(PREFIX + problem.name, problem.message) from None
    return settings
