"""The configuration of a broker: its options, the layers of their values, and what is derived from them."""

from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from tailrace.base.invariant import invariant
from tailrace.config.authorization import AuthorizationOptions
from tailrace.config.cleaner import DEDUPE_BYTES_PER_THREAD_MIN, CleanerOptions
from tailrace.config.configuration import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Configuration,
    index_options,
    parse_options,
    raise_problems,
    suggestion,
)
from tailrace.config.consumer_group import ConsumerGroupOptions, consumer_group_problems
from tailrace.config.controller import ControllerOptions
from tailrace.config.coordinator import CoordinatorOptions
from tailrace.config.delegation_token import DelegationTokenOptions
from tailrace.config.error import ConfigError, RequestError
from tailrace.config.inert import BROKER_OPTIONS
from tailrace.config.inert_cluster import CLUSTER_OPTIONS
from tailrace.config.inert_coordinator import COORDINATOR_OPTIONS
from tailrace.config.listener import Endpoint, ListenerSetup, resolve_listeners
from tailrace.config.listener_override import override_option, parse_override
from tailrace.config.listener_security import ListenerSecurity, security_problems
from tailrace.config.log_default import SYNONYM_FAMILIES, LogOptions
from tailrace.config.network import NetworkOptions
from tailrace.config.option import Option, UpdateMode, render_value
from tailrace.config.quota import QuotaOptions
from tailrace.config.refusal import broker_refusal
from tailrace.config.replication import ReplicationOptions
from tailrace.config.sasl import SASL_INERT_OPTIONS, SaslOptions
from tailrace.config.schema import SchemaOptions
from tailrace.config.tls import TlsOptions
from tailrace.config.transaction import TransactionOptions
from tailrace.config.zookeeper import ZOOKEEPER_INERT_OPTIONS, ZooKeeperOptions, zookeeper_problems

_NO_LAYER: Mapping[str, str] = MappingProxyType({})


class BrokerConfig(
    NetworkOptions,
    TlsOptions,
    SaslOptions,
    AuthorizationOptions,
    LogOptions,
    CleanerOptions,
    ConsumerGroupOptions,
    ControllerOptions,
    CoordinatorOptions,
    DelegationTokenOptions,
    QuotaOptions,
    ReplicationOptions,
    SchemaOptions,
    TransactionOptions,
    ZooKeeperOptions,
    Configuration,
):
    """The options of a broker.

    A value comes from the first layer that has it: the dynamic configs of this broker, those of all
    brokers, the configs at start, the default.
    """

    notices: tuple[str, ...]
    """Lines for the log at start: the options without effect, with the reasons."""

    _layers: Mapping[ConfigSource, Mapping[str, str]]
    _set_names: Set[str]
    _values: Mapping[str, Any]
    _listener_setup: ListenerSetup

    def __init__(
        self,
        static: Mapping[str, str] = _NO_LAYER,
        *,
        per_broker: Mapping[str, str] = _NO_LAYER,
        cluster_default: Mapping[str, str] = _NO_LAYER,
    ) -> None:
        """Build from Kafka's names and texts, or raise `ConfigError` with all errors."""
        layers = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: dict(per_broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: _with_cluster_minimum(cluster_default, static),
            ConfigSource.STATIC_BROKER_CONFIG: _with_both_ids(static),
        }
        texts = {name: text for layer in reversed(layers.values()) for name, text in layer.items()}
        problems = [
            *name_problems(static),
            *dynamic_problems(per_broker, per_broker=True),
            *dynamic_problems(cluster_default, per_broker=False),
        ]
        known = {name: option for name in texts if (option := broker_option(name)) is not None}
        values = {name: option.default for name, option in broker_options().items()}
        values |= parse_options(known, {name: texts[name] for name in known}, problems)
        self.__dict__.update({option.attribute: values[name] for name, option in self.options.items()})
        self.__dict__["_layers"] = MappingProxyType(layers)
        self.__dict__["_set_names"] = frozenset(texts)
        self.__dict__["_values"] = MappingProxyType(values)
        self.__dict__["_listener_setup"] = self._check_together(texts)
        self.__dict__["notices"] = tuple(self._inert_notices())

    def with_dynamic(self, per_broker: Mapping[str, str], cluster_default: Mapping[str, str]) -> "BrokerConfig":
        """Return this configuration with other dynamic configs, or raise `ConfigError`."""
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
        """The log folders: `log.dirs`, or `log.dir` if that is not set."""
        return tuple(Path(folder) for folder in self.log_dirs or self.log_dir)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners to open: those of `listeners` that are not Kafka controller listeners."""
        return self._listener_setup.opened

    @property
    def inter_broker_listener(self) -> Endpoint:
        """The listener for other brokers: `inter.broker.listener.name`, the first with the right protocol, or any."""
        name, protocol = (self.inter_broker_listener_name or "").upper(), self.security_inter_broker_protocol
        named = [item for item in self.broker_listeners if item.name == name]
        fitting = [item for item in self.broker_listeners if item.security_protocol == protocol]
        return (named or fitting or self.broker_listeners)[0]

    def listener_security(self, listener: Endpoint) -> ListenerSecurity:
        """Return the security options of a listener."""
        return ListenerSecurity(listener, self._values, self._set_names.__contains__)

    def advertised_listener(self, name: str, bound_port: int, default_host: str) -> Endpoint:
        """Return the address that clients of a listener connect to.

        `bound_port` is the port that was opened, which is used if the option says 0. `default_host` is
        used if the option names no particular interface; Kafka refuses to start in this case, here
        `--listen 0.0.0.0:9092` works.
        """
        return self._listener_setup.advertise(name, bound_port, default_host)

    def synonyms(self, name: str, family: Sequence[str]) -> Iterator[ConfigSynonym]:
        """Return, strongest first, the places that set a config of the family, starting with one that sets `name`.

        Kafka leaves out the places before that one: a topic whose retention comes from
        `log.retention.hours` has no synonyms of `retention.ms`.
        """
        return dropwhile(lambda synonym: synonym.name != name, self._places(family))

    def _places(self, family: Sequence[str]) -> Iterator[ConfigSynonym]:
        for source, layer in self._layers.items():
            for name in family:
                if name in layer:
                    yield ConfigSynonym(name, _shown(name, layer[name]), source)
        for name in family:
            option = broker_options().get(name)  # what a listener has for itself has no default
            default = None if option is None or option.is_hidden else render_value(option.default)
            if default is not None:
                yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)

    def entries(self) -> Iterator[ConfigEntry]:
        """Yield for DescribeConfigs all options with an effect, and the other options that are set."""
        for name, option in broker_options().items():
            is_listed = option.inert is None and not option.is_hidden
            if is_listed or name in self._set_names:
                yield self._entry(option, tuple(self.synonyms(name, _family(name))))
        for name in sorted(self._values.keys() - broker_options().keys()):
            yield self._entry(known_option(name), tuple(self.synonyms(name, _family(name))))

    def cluster_default_entries(self) -> Iterator[ConfigEntry]:
        """Yield for DescribeConfigs the dynamic configs of all brokers."""
        layer = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        for name, text in sorted(self._layers[layer].items()):
            synonym = ConfigSynonym(name, _shown(name, text), layer)
            yield self._entry(known_option(name), (synonym,), value=synonym.value)

    def _entry(self, option: Option[Any], synonyms: tuple[ConfigSynonym, ...], value: str | None = None) -> ConfigEntry:
        documentation = option.doc if option.inert is None else f"{option.doc} No effect in Tailrace: {option.inert}."
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
            message = "queued.max.request.bytes must be -1 or at least socket.request.max.bytes"
            problems.append(ConfigError("queued.max.request.bytes", message))
        if self.log_cleaner_dedupe_buffer_size < self.log_cleaner_threads * DEDUPE_BYTES_PER_THREAD_MIN:
            message = "log.cleaner.dedupe.buffer.size must be at least 1 MiB for each of log.cleaner.threads"
            problems.append(ConfigError("log.cleaner.dedupe.buffer.size", message))
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            message = (
                "replica.fetch.wait.max.ms must be at most replica.lag.time.max.ms, or idle followers leave the ISR"
            )
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
        problems += self._listener_problems(setup)
        raise_problems(problems)
        return setup

    def _listener_problems(self, setup: ListenerSetup) -> Iterator[ConfigError]:
        """Yield an error for each option of a listener that the broker does not have."""
        names = [listener.name for listener in (*setup.opened, *setup.controller)]
        for name in self._values:
            override = parse_override(name)
            if override is not None and override.listener.upper() not in names:
                yield ConfigError(name, f"{name}: {override.listener} is not one of the listeners {', '.join(names)}")
        for listener in setup.opened:
            yield from security_problems(self.listener_security(listener))

    def _inert_notices(self) -> Iterator[str]:
        for name in self._layers[ConfigSource.STATIC_BROKER_CONFIG]:
            reason = known_option(name).inert
            if reason is not None:
                yield f"{name} is accepted but has no effect: {reason}"
        for listener in self._listener_setup.controller:
            yield f"listener {listener} is not opened: Tailrace has no controller listeners"


_INERT_OPTIONS = (
    *BROKER_OPTIONS,
    *CLUSTER_OPTIONS,
    *COORDINATOR_OPTIONS,
    *SASL_INERT_OPTIONS,
    *ZOOKEEPER_INERT_OPTIONS,
)
_OPTIONS = MappingProxyType(index_options([*BrokerConfig.options.values(), *_INERT_OPTIONS]))


def broker_options() -> Mapping[str, Option[Any]]:
    """Return all accepted broker options by name, with or without effect."""
    return _OPTIONS


def broker_option(name: str) -> Option[Any] | None:
    """Return the broker option with that name, which may be one of a listener; None if there is none."""
    return _OPTIONS.get(name) or override_option(name)


def known_option(name: str) -> Option[Any]:
    """Return the broker option with that name, which is known to exist."""
    option = broker_option(name)
    invariant(option is not None, f"no broker option is named {name}")
    return cast("Option[Any]", option)


def name_problems(texts: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yield an error for each name that is not a broker option."""
    for name in texts:
        if broker_option(name) is None:
            unknown = f"Unknown broker config name: {name}{suggestion(name, _OPTIONS)}"
            yield ConfigError(name, broker_refusal(name) or unknown)


def dynamic_problems(texts: Mapping[str, str], *, per_broker: bool) -> Iterator[ConfigError]:
    """Yield an error for each option that cannot be changed at run time, for one broker or for all."""
    yield from name_problems(texts)
    for name in texts:
        option = broker_option(name)
        if option is None:
            continue
        if option.inert is not None:
            yield ConfigError(name, f"{name} has no effect in Tailrace and cannot be set at run time: {option.inert}")
        elif option.update_mode is UpdateMode.READ_ONLY:
            yield RequestError(name, f"Cannot update this config dynamically: {name}")
        elif option.update_mode is UpdateMode.PER_BROKER and not per_broker:
            message = f"Cannot update this config at default cluster level, broker id must be specified: {name}"
            yield ConfigError(name, message)


def validate_dynamic_broker_configs(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise `ConfigError` for options that cannot be changed at run time, and for values that are not valid."""
    problems = list(dynamic_problems(texts, per_broker=per_broker))
    known = {name: option for name in texts if (option := broker_option(name)) is not None}
    parse_options(known, {name: texts[name] for name in known}, problems)


def _with_cluster_minimum(cluster_default: Mapping[str, str], static: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of the cluster with `min.insync.replicas` among them.

    The controller uses it to decide which replicas may be elected (KIP-966), so Kafka stores the value at start as a
    default of the cluster.
    """
    option = BrokerConfig.min_insync_replicas
    at_start = static.get(option.name, str(option.default))
    return {option.name: at_start, **cluster_default}


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    ids = {name: static[name] for name in ("node.id", "broker.id") if name in static}
    missing = {"node.id", "broker.id"} - ids.keys() if ids else set()
    return {**static, **{name: next(iter(ids.values())) for name in missing}}


def _family(name: str) -> tuple[str, ...]:
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return next((family for family in SYNONYM_FAMILIES if name in family), (name,))


def _shown(name: str, text: str) -> str | None:
    option = known_option(name)
    return None if option.sensitive else render_value(option.parse(text))
