"""A broker's values: their layers, what DescribeConfigs tells of them, and what may change at run time."""

from pathlib import Path

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.config import BrokerConfig, ConfigEntry, ConfigError, ConfigSource, ConfigSynonym, InvalidConfigError
from tailrace.config import broker as broker_module
from tailrace.config.broker import broker_options, validate_dynamic_broker_configs
from tailrace.config.declaration import integer, password
from tailrace.config.option import OptionType, UpdateMode


def entry(config: BrokerConfig, name: str) -> ConfigEntry:
    return next(item for item in config.entries() if item.name == name)


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.num_partitions == 1
    assert config.socket_request_max_bytes == 104857600
    assert config.message_max_bytes == 1048588
    assert config.log_segment_bytes == 1073741824
    assert config.log_retention_hours == 168
    assert config.log_retention_ms is None
    assert config.connections_max_idle_ms == 600000
    assert config.auto_create_topics_enable is True
    assert config.fetch_max_bytes == 57671680
    assert config.notices == ()


def test_every_default_passes_its_own_check() -> None:
    for option in broker_options().values():
        if option.default is not None and option.check is not None and option.default != ():
            assert option.check.complaint(option.default) is None, option.name


def test_a_configuration_cannot_change() -> None:
    config = BrokerConfig()
    with pytest.raises(AttributeError, match="cannot change"):
        config.num_partitions = 5
    with pytest.raises(AttributeError, match="cannot change"):
        del config.num_partitions
    assert config.num_partitions == 1


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig({"num.partitions": "0", "num.partition": "1", "log.roll.ms": "x", "sasl.login.class": "hunter2"})
    assert [problem.name for problem in caught.value.problems] == [
        "num.partition",
        "sasl.login.class",
        "num.partitions",
        "log.roll.ms",
    ]
    assert "did you mean num.partitions?" in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("zookeeper.metadata.migration.enable", "this part of Kafka's ZooKeeper client is not supported"),
        ("zookeeper.ssl.crl.enable", "this part of Kafka's ZooKeeper client is not supported"),
        ("broker.id.generation.enable", "set node.id"),
        ("remote.log.storage.system.enable", "tiered storage is not supported yet"),
        ("log.local.retention.ms", "tiered storage is not supported yet"),
        ("ssl.engine.factory.class", "does not load Java classes"),
        ("sasl.client.callback.handler.class", "does not load Java classes"),
        ("principal.builder.class", "does not load Java classes"),
        ("metric.reporters", "does not load Java classes"),
        ("host.name", "use listeners and advertised.listeners"),
        ("metadata.log.dir", "first folder of log.dirs"),
        ("confluent.balancer.enable", "Confluent Server"),
    ],
)
def test_unsupported_options_are_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: "anything"})
    assert caught.value.name == name
    assert caught.value.message.startswith(f"{name} is a Kafka option that Tailrace does not support: ")
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"log.cleaner.io.max.bytes.per.second": "0"}, "greater than 0"),
        ({"log.cleaner.io.buffer.load.factor": "1.1"}, "greater than 0 and at most 1"),
        ({"log.cleaner.dedupe.buffer.size": "2000000", "log.cleaner.threads": "2"}, "1 MiB for each"),
        ({"log.cleanup.policy": "shred"}, "must be delete"),
        ({"log.cleanup.policy": "compact,"}, "must be delete"),
        ({"compression.type": "none"}, "must be one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ({"compression.gzip.level": "0"}, "must be between 1 and 9, or -1"),
        ({"compression.lz4.level": "18"}, "must be between 1 and 17"),
        ({"compression.zstd.level": "23"}, "must be between -131072 and 22"),
        ({"log.preallocate": "true"}, "must be false"),
        ({"log.retention.ms": "0"}, "at least 1"),
        ({"tailrace.metrics.listener": "9308"}, "must be HOST:PORT"),
        ({"sasl.server.callback.handler.class": "com.example.Own"}, "must be Kafka's class OAuthBearerValidatorC"),
        ({"sasl.login.callback.handler.class": "com.example.Own"}, "does not load Java classes"),
        ({"tailrace.metrics.listener": "localhost:65536"}, "must be HOST:PORT"),
        ({"tailrace.metrics.listener": "::1:9308"}, "must be HOST:PORT"),
        ({"process.roles": "broker"}, "it must be broker,controller"),
        ({"process.roles": "controller"}, "it must be broker,controller"),
        ({"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}, "share a ZooKeeper"),
        ({"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, "share a ZooKeeper"),
        ({"security.inter.broker.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"authorizer.class.name": "org.example.Ours"}, "does not load Java classes"),
        ({"super.users": "alice"}, "TYPE:NAME"),
        ({"node.id": "1", "broker.id": "2"}, "must agree"),
        ({"queued.max.request.bytes": "1000"}, "at least socket.request.max.bytes"),
        ({"log.dirs": "/a,/a"}, "different, non-empty items"),
        ({"replica.fetch.wait.max.ms": "500", "replica.lag.time.max.ms": "499"}, "at most replica.lag.time.max.ms"),
        ({"replica.selector.class": "org.example.Mine"}, "Java classes cannot be loaded"),
    ],
)
def test_values_that_would_mean_something_else_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(options)
    assert reason in caught.value.message


def test_inert_options_are_accepted_checked_and_announced() -> None:
    config = BrokerConfig({"num.io.threads": "16", "group.coordinator.threads": "9", "num.partitions": "3"})
    assert config.notices == (
        "num.io.threads is accepted but has no effect: "
        "one event loop serves a broker; there are no thread pools to size",
        "group.coordinator.threads is accepted but has no effect: "
        "the coordinator runs on the broker's event loop and writes at once",
    )
    with pytest.raises(ConfigError, match=r"Invalid value 'many' for num\.io\.threads"):
        BrokerConfig({"num.io.threads": "many"})


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_the_two_names_of_the_id_are_one(name: str) -> None:
    config = BrokerConfig({name: "7"})
    assert config.node_id == config.broker_id == 7
    assert entry(config, "broker.id").source is ConfigSource.STATIC_BROKER_CONFIG


def test_folders_come_from_log_dirs_and_else_from_log_dir() -> None:
    assert BrokerConfig({"log.dir": "/a"}).log_directories == (Path("/a"),)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"}).log_directories == (Path("/b"), Path("/c"))


def test_layers_go_before_each_other() -> None:
    static = BrokerConfig({"max.connections": "1", "message.max.bytes": "100"})
    everywhere = static.with_dynamic({}, {"max.connections": "2", "log.retention.ms": "5"})
    here = static.with_dynamic({"max.connections": "3"}, {"max.connections": "2"})
    assert (static.max_connections, everywhere.max_connections, here.max_connections) == (1, 2, 3)
    assert here.message_max_bytes == 100
    assert here.with_dynamic({}, {}).max_connections == 1

    assert entry(here, "max.connections") == ConfigEntry(
        name="max.connections",
        value="3",
        source=ConfigSource.DYNAMIC_BROKER_CONFIG,
        is_sensitive=False,
        read_only=False,
        type=OptionType.INT,
        documentation=BrokerConfig.max_connections.doc,
        synonyms=(
            ConfigSynonym("max.connections", "3", ConfigSource.DYNAMIC_BROKER_CONFIG),
            ConfigSynonym("max.connections", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ConfigSynonym("max.connections", "1", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("max.connections", "2147483647", ConfigSource.DEFAULT_CONFIG),
        ),
    )


def test_what_is_set_for_all_brokers_is_described_alone() -> None:
    config = BrokerConfig({"max.connections": "1"}).with_dynamic({"max.connections": "3"}, {"max.connections": "2"})
    cluster = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert [(found.name, found.value, found.source) for found in config.cluster_default_entries()] == [
        ("max.connections", "2", cluster),
        ("min.insync.replicas", "1", cluster),
    ]


@pytest.mark.parametrize(
    ("static", "cluster_default", "values"),
    [
        ({}, {}, [("1", 3), ("1", 5)]),
        ({"min.insync.replicas": "2"}, {}, [("2", 3), ("2", 4), ("1", 5)]),
        ({"min.insync.replicas": "2"}, {"min.insync.replicas": "3"}, [("3", 3), ("2", 4), ("1", 5)]),
    ],
)
def test_the_minimum_of_replicas_in_sync_is_a_default_of_the_cluster(
    static: dict[str, str], cluster_default: dict[str, str], values: list[tuple[str, int]]
) -> None:
    """As Kafka tells it where replicas outside the ISR may be elected (KIP-966)."""
    config = BrokerConfig(static, cluster_default=cluster_default)
    described = entry(config, "min.insync.replicas")
    assert [(synonym.value, synonym.source) for synonym in described.synonyms] == values
    assert (described.value, described.source) == values[0]
    assert config.min_insync_replicas == int(values[0][0])


def test_rates_of_throttles_are_described_only_where_they_are_set() -> None:
    """They exist at run time only, so Kafka has neither a default nor an entry for them."""
    assert not [item.name for item in BrokerConfig().entries() if item.name.endswith("throttled.rate")]
    throttled = BrokerConfig().with_dynamic({"leader.replication.throttled.rate": "1000"}, {})
    assert entry(throttled, "leader.replication.throttled.rate").synonyms == (
        ConfigSynonym("leader.replication.throttled.rate", "1000", ConfigSource.DYNAMIC_BROKER_CONFIG),
    )


def test_the_check_for_silent_producers_is_accepted_and_not_listed() -> None:
    name = "producer.id.expiration.check.interval.ms"
    assert BrokerConfig({name: "5"}).producer_id_expiration_check_interval_ms == 5
    assert name not in [item.name for item in BrokerConfig().entries()]


def test_describe_lists_what_is_honoured_and_what_was_set() -> None:
    names = [item.name for item in BrokerConfig({"num.io.threads": "16"}).entries()]
    assert names == sorted(names)
    assert {"log.segment.bytes", "listeners", "num.io.threads"} <= set(names)
    assert "num.network.threads" not in names
    threads = entry(BrokerConfig({"num.io.threads": "16"}), "num.io.threads")
    assert (threads.value, threads.read_only) == ("16", True)
    assert "No effect in Tailrace" in threads.documentation


def test_describe_gives_values_in_kafkas_form() -> None:
    config = BrokerConfig({"auto.create.topics.enable": "FALSE", "log.dirs": "/a , /b"})
    values = {item.name: item.value for item in config.entries()}
    assert values["auto.create.topics.enable"] == "false"
    assert values["log.dirs"] == "/a,/b"
    assert values["advertised.listeners"] is None
    assert values["log.retention.ms"] is None


def test_units_of_one_option_are_synonyms_of_each_other() -> None:
    """From the first that sets the option itself, as in Kafka; a coarser unit alone is no synonym of a finer one."""
    config = BrokerConfig({"log.retention.minutes": "5"})
    hours = ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG)
    minutes = ConfigSynonym("log.retention.minutes", "5", ConfigSource.STATIC_BROKER_CONFIG)
    assert entry(config, "log.retention.ms").synonyms == ()
    assert entry(config, "log.retention.ms").source is ConfigSource.DEFAULT_CONFIG
    assert entry(config, "log.retention.minutes").synonyms == (minutes, hours)
    assert entry(config, "log.retention.hours").synonyms == (hours,)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"num.partitions": "3"}, "Cannot update this config dynamically: num.partitions"),
        ({"num.io.threads": "3"}, "has no effect in Tailrace and cannot be set at run time"),
        ({"max.conections": "3"}, "Unknown broker config name: max.conections (did you mean max.connections?)"),
        ({"zookeeper.connect": "h"}, "Cannot update this config dynamically: zookeeper.connect"),
        ({"log.local.retention.ms": "1"}, "is a Kafka option that Tailrace does not support"),
        ({"max.connections": "-1"}, "must be at least 0"),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_what_cannot_change_at_run_time_is_refused(options: dict[str, str], reason: str, per_broker: bool) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_dynamic_broker_configs(options, per_broker=per_broker)
    assert reason in caught.value.message
    layers = (options, {}) if per_broker else ({}, options)
    with pytest.raises(ConfigError):
        BrokerConfig().with_dynamic(*layers)


def test_a_per_broker_option_needs_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    option = integer("a.b", 1, "Of one broker.", update_mode=UpdateMode.PER_BROKER)
    monkeypatch.setattr(broker_module, "_OPTIONS", {"a.b": option})
    validate_dynamic_broker_configs({"a.b": "2"}, per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        validate_dynamic_broker_configs({"a.b": "2"}, per_broker=False)


def test_a_secret_is_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "_OPTIONS", {**broker_options(), "a.secret": password("a.secret", "Secret.")})
    config = BrokerConfig({"a.secret": "hunter2"})
    assert config.value("a.secret") == "hunter2"
    described = entry(config, "a.secret")
    assert (described.value, described.is_sensitive, described.type) == (None, True, OptionType.PASSWORD)
    assert described.synonyms == (ConfigSynonym("a.secret", None, ConfigSource.STATIC_BROKER_CONFIG),)


def test_a_value_is_found_by_its_kafka_name() -> None:
    assert BrokerConfig({"num.io.threads": "16"}).value("num.io.threads") == 16
    with pytest.raises(InvariantError):
        BrokerConfig().value("no.such.option")
