"""The configuration of a broker: its options, the layers their values come from, and what follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runnel.base.invariant import invariant
from runnel.config.cleaner import DEDUPE_BYTES_PER_THREAD_MIN, CleanerOptions
from runnel.config.configuration import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Configuration,
    index_options,
    parse_options,
    raise_problems,
    suggestion,
)
from runnel.config.consumer_group import ConsumerGroupOptions, consumer_group_problems
from runnel.config.controller import ControllerOptions
from runnel.config.coordinator import CoordinatorOptions
from runnel.config.error import ConfigError, RequestError
from runnel.config.inert import BROKER_OPTIONS
from runnel.config.inert_cluster import CLUSTER_OPTIONS
from runnel.config.inert_coordinator import COORDINATOR_OPTIONS
from runnel.config.listener import Endpoint, ListenerSetup, resolve_listeners
from runnel.config.log_default import SYNONYM_FAMILIES, LogOptions
from runnel.config.network import NetworkOptions
from runnel.config.option import Option, UpdateMode, render_value
from runnel.config.refusal import broker_refusal
from runnel.config.replication import ReplicationOptions
from runnel.config.transaction import TransactionOptions
from runnel.config.zookeeper import ZOOKEEPER_INERT_OPTIONS, ZooKeeperOptions, zookeeper_problems

_NO_LAYER: Mapping[str, str] = MappingProxyType({})


class BrokerConfig(
    NetworkOptions,
    LogOptions,
    CleanerOptions,
    ConsumerGroupOptions,
    ControllerOptions,
    CoordinatorOptions,
    ReplicationOptions,
    TransactionOptions,
    ZooKeeperOptions,
    Configuration,
):
    """The options that a broker lives by.

    A value comes from the first layer that has it: set for this broker at run time, set for all
    brokers at run time, set at start, the default.
    """

    notices: tuple[str, ...]
    """Lines for the log at start: what was accepted without effect, and why."""

    _layers: Mapping[ConfigSource, Mapping[str, str]]
    _values: Mapping[str, Any]
    _listener_setup: ListenerSetup

    def __init__(
        self,
        static: Mapping[str, str] = _NO_LAYER,
        *,
        per_broker: Mapping[str, str] = _NO_LAYER,
        cluster_default: Mapping[str, str] = _NO_LAYER,
    ) -> None:
        """Build from Kafka's names and texts, or raise `ConfigError` with everything that is wrong."""
        layers = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: dict(per_broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: dict(cluster_default),
            ConfigSource.STATIC_BROKER_CONFIG: _with_both_ids(static),
        }
        texts = {name: text for layer in reversed(layers.values()) for name, text in layer.items()}
        problems = [
            *name_problems(static),
            *dynamic_problems(per_broker, per_broker=True),
            *dynamic_problems(cluster_default, per_broker=False),
        ]
        known = {name: text for name, text in texts.items() if name in broker_options()}
        values = {name: option.default for name, option in broker_options().items()}
        values |= parse_options(broker_options(), known, problems)
        self.__dict__.update({option.attribute: values[name] for name, option in self.options.items()})
        self.__dict__["_layers"] = MappingProxyType(layers)
        self.__dict__["_values"] = MappingProxyType(values)
        self.__dict__["_listener_setup"] = self._check_together(texts)
        self.__dict__["notices"] = tuple(self._inert_notices())

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_default: Mapping[str, str]) -> "BrokerConfig":
        """Return this configuration with other run-time layers, or raise `ConfigError`."""
        static = self._layers[ConfigSource.STATIC_BROKER_CONFIG]
        return BrokerConfig(static, per_broker=per_broker, cluster_default=cluster_default)

    def with_notices(self, notices: Sequence[str]) -> "BrokerConfig":
        """Return this configuration with more lines for the log at start."""
        other = copy(self)
        other.__dict__["notices"] = (*notices, *self.notices)
        return other

    def value(self, name: str) -> Any:
        """Return the value of the option with that Kafka name."""
        invariant(name in self._values, f"no broker option is named {name}")
        return self._values[name]

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """The folders of the log: log.dirs, or log.dir where that is not set."""
        return tuple(Path(folder) for folder in self.log_dirs or self.log_dir)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners to open: those of `listeners` that are not Kafka controller listeners."""
        return self._listener_setup.opened

    @property
    def inter_broker_listener(self) -> Endpoint:
        """The listener for other brokers: inter.broker.listener.name, or the first one."""
        named = [item for item in self.broker_listeners if item.name == (self.inter_broker_listener_name or "").upper()]
        return (named or self.broker_listeners)[0]

    def advertised_listener(self, name: str, bound_port: int, default_host: str) -> Endpoint:
        """Return the address that clients of a listener are told.

        `bound_port` is the port that was opened, which matters where the option says 0;
        `default_host` stands in where the option names no particular interface. Kafka would
        refuse to start in the latter case; here `--listen 0.0.0.0:9092` just works.
        """
        return self._listener_setup.advertise(name, bound_port, default_host)

    def synonyms(self, names: Sequence[str]) -> Iterator[ConfigSynonym]:
        """Yield, strongest first, every place that has a value for one of the names."""
        for source, layer in self._layers.items():
            for name in names:
                if name in layer:
                    yield ConfigSynonym(name, _shown(name, layer[name]), source)
        for name in names:
            default = render_value(broker_options()[name].default)
            if default is not None:
                yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)

    def entries(self) -> Iterator[ConfigEntry]:
        """Yield for DescribeConfigs every option that Runnel honours, and the inert ones that were set."""
        for name, option in broker_options().items():
            if option.inert is None or any(name in layer for layer in self._layers.values()):
                yield self._entry(option, tuple(self.synonyms(_family(name))))

    def cluster_default_entries(self) -> Iterator[ConfigEntry]:
        """Yield for DescribeConfigs what is set for all brokers at run time."""
        layer = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        for name, text in sorted(self._layers[layer].items()):
            synonym = ConfigSynonym(name, _shown(name, text), layer)
            yield self._entry(broker_options()[name], (synonym,), value=synonym.value)

    def _entry(self, option: Option[Any], synonyms: tuple[ConfigSynonym, ...], value: str | None = None) -> ConfigEntry:
        documentation = option.doc if option.inert is None else f"{option.doc} No effect in Runnel: {option.inert}."
        own = render_value(self._values[option.name]) if value is None else value
        return ConfigEntry(
            name=option.name,
            value=None if option.sensitive else own,
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            is_sensitive=option.sensitive,
            read_only=option.update_mode is UpdateMode.READ_ONLY,
            type=option.value_type,
            documentation=documentation,
            synonyms=synonyms,
        )

    def _check_together(self, texts: Mapping[str, str]) -> ListenerSetup:
        problems = [*consumer_group_problems(self.value), *zookeeper_problems(self.value)]
        if self.node_id != self.broker_id:
            problems.append(
                ConfigError("broker.id", "broker.id and node.id are two names of one option and must agree")
            )
        if "queued.max.request.bytes" in texts and 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            message = (
                "queued.max.request.bytes must be -1 or at least socket.request.max.bytes, or no such request fits"
            )
            problems.append(ConfigError("queued.max.request.bytes", message))
        if self.log_cleaner_dedupe_buffer_size < self.log_cleaner_threads * DEDUPE_BYTES_PER_THREAD_MIN:
            message = "log.cleaner.dedupe.buffer.size must be at least 1 MiB for each of log.cleaner.threads"
            problems.append(ConfigError("log.cleaner.dedupe.buffer.size", message))
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            message = "replica.fetch.wait.max.ms must be at most replica.lag.time.max.ms, or idle followers seem to lag"
            problems.append(ConfigError("replica.fetch.wait.max.ms", message))
        try:
            setup = resolve_listeners(
                self.listeners,
                self.advertised_listeners,
                self.listener_security_protocol_map,
                self.controller_listener_names,
                self.inter_broker_listener_name,
            )
        except ConfigError as error:
            raise_problems([*problems, error])
            raise
        raise_problems(problems)
        return setup

    def _inert_notices(self) -> Iterator[str]:
        for name in self._layers[ConfigSource.STATIC_BROKER_CONFIG]:
            reason = broker_options()[name].inert
            if reason is not None:
                yield f"{name} is accepted but has no effect: {reason}"
        for listener in self._listener_setup.controller:
            yield f"listener {listener} is not opened: Runnel has no controller listeners"


_INERT_OPTIONS = (*BROKER_OPTIONS, *CLUSTER_OPTIONS, *COORDINATOR_OPTIONS, *ZOOKEEPER_INERT_OPTIONS)
_OPTIONS = MappingProxyType(index_options([*BrokerConfig.options.values(), *_INERT_OPTIONS]))


def broker_options() -> Mapping[str, Option[Any]]:
    """Return every broker option that is accepted, with or without effect, by name."""
    return _OPTIONS


def name_problems(texts: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yield what is wrong with the names of a broker's options."""
    for name in texts:
        if name not in _OPTIONS:
            unknown = f"Unknown broker config name: {name}{suggestion(name, _OPTIONS)}"
            yield ConfigError(name, broker_refusal(name) or unknown)


def dynamic_problems(texts: Mapping[str, str], *, per_broker: bool) -> Iterator[ConfigError]:
    """Yield why options cannot change at run time, for one broker or for all of them."""
    yield from name_problems(texts)
    for name in texts:
        option = _OPTIONS.get(name)
        if option is None:
            continue
        if option.inert is not None:
            yield ConfigError(name, f"{name} has no effect in Runnel and cannot be set at run time: {option.inert}")
        elif option.update_mode is UpdateMode.READ_ONLY:
            yield RequestError(name, f"Cannot update this config dynamically: {name}")
        elif option.update_mode is UpdateMode.PER_BROKER and not per_broker:
            message = f"Cannot update this config at default cluster level, broker id must be specified: {name}"
            yield ConfigError(name, message)


def validate_dynamic_broker_configs(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise `ConfigError` for options that cannot be set at run time, or not to these values."""
    problems = list(dynamic_problems(texts, per_broker=per_broker))
    parse_options(_OPTIONS, {name: text for name, text in texts.items() if name in _OPTIONS}, problems)


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    ids = {name: static[name] for name in ("node.id", "broker.id") if name in static}
    missing = {"node.id", "broker.id"} - ids.keys() if ids else set()
    return {**static, **{name: next(iter(ids.values())) for name in missing}}


def _family(name: str) -> tuple[str, ...]:
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return next((family for family in SYNONYM_FAMILIES if name in family), (name,))


def _shown(name: str, text: str) -> str | None:
    option = _OPTIONS[name]
    return None if option.sensitive else render_value(option.parse(text))
