"""A topic's values: its overrides, what it inherits, and what it cannot have."""

import difflib

import pytest

from tailrace.config import (
    BrokerConfig,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigSynonym,
    InvalidConfigError,
    TopicConfig,
    validate_topic_overrides,
)
from tailrace.config.broker import broker_options
from tailrace.config.configuration import suggestion
from tailrace.config.log_default import SYNONYM_FAMILIES
from tailrace.config.option import OptionType, UpdateMode
from tailrace.config.refusal import TOPIC_REFUSALS


def entry(config: TopicConfig, name: str) -> ConfigEntry:
    return next(item for item in config.entries() if item.name == name)


def refusal(name: str, text: str | None) -> str:
    with pytest.raises(ConfigError) as caught:
        validate_topic_overrides({name: text}, BrokerConfig())
    assert caught.value.name == name
    return caught.value.message


def test_defaults_are_kafkas() -> None:
    config = TopicConfig.resolve({}, BrokerConfig())
    assert {item.name: item.value for item in config.entries()} == {
        "cleanup.policy": "delete",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.type": "producer",
        "compression.zstd.level": "3",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000",
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
        "follower.replication.throttled.replicas": "",
        "index.interval.bytes": "4096",
        "leader.replication.throttled.replicas": "",
        "max.compaction.lag.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }
    assert not any(item.read_only for item in config.entries())
    # The controller needs the minimum to elect leaders, so it is a default of the cluster (KIP-966).
    not_default = {item.name: item.source for item in config.entries() if item.source != ConfigSource.DEFAULT_CONFIG}
    assert not_default == {"min.insync.replicas": ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}


@pytest.mark.parametrize(
    "name",
    [
        "retention.ms",
        "segment.ms",
        "segment.jitter.ms",
        "flush.ms",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    ],
)
def test_options_without_a_broker_default_of_their_own_have_no_synonyms(name: str) -> None:
    """Kafka's answer: log.retention.ms and its like are not set, and what stands in for them is left out."""
    config = TopicConfig.resolve({}, BrokerConfig())
    assert entry(config, name).synonyms == ()
    overridden = TopicConfig.resolve({name: "5" if name.endswith(".ms") else "0:1"}, BrokerConfig())
    assert [synonym.name for synonym in entry(overridden, name).synonyms] == [name]


def test_compression_can_be_chosen() -> None:
    broker = BrokerConfig({"compression.type": "gzip", "compression.gzip.level": "9"})
    inherited = TopicConfig.resolve({}, broker)
    assert (inherited.compression_type, inherited.compression_gzip_level) == ("gzip", 9)
    own = TopicConfig.resolve({"compression.type": "zstd", "compression.zstd.level": "-5"}, broker)
    assert (own.compression_type, own.compression_zstd_level, own.compression_lz4_level) == ("zstd", -5, 9)


def test_a_topic_may_never_be_cleaned_up() -> None:
    assert TopicConfig.resolve({"cleanup.policy": ""}, BrokerConfig()).cleanup_policy == ()
    assert TopicConfig.resolve({}, BrokerConfig({"log.cleanup.policy": ""})).cleanup_policy == ()


def test_segments_for_tests_may_be_small() -> None:
    """Kafka accepts any size and tells of the option only where it is set."""
    config = TopicConfig.resolve({"internal.segment.bytes": "1000"}, BrokerConfig())
    assert config.internal_segment_bytes == 1000
    assert [(found.name, found.source) for found in entry(config, "internal.segment.bytes").synonyms] == [
        ("internal.segment.bytes", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    ]
    assert TopicConfig.resolve({}, BrokerConfig()).internal_segment_bytes is None


def test_the_broker_gives_every_option_the_same_default_as_the_declaration() -> None:
    config = TopicConfig.resolve({}, BrokerConfig())
    for option in TopicConfig.options.values():
        assert getattr(config, option.attribute) == option.default, option.name


def test_an_override_goes_before_the_broker() -> None:
    broker = BrokerConfig({"log.retention.ms": "1000", "log.segment.bytes": "2097152"})
    config = TopicConfig.resolve({"retention.ms": " 5 "}, broker)
    assert config.retention_ms == 5
    assert config.segment_bytes == 2097152
    assert config.overrides == {"retention.ms": " 5 "}
    assert entry(config, "retention.ms") == ConfigEntry(
        name="retention.ms",
        value="5",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        is_sensitive=False,
        read_only=False,
        type=OptionType.LONG,
        documentation=TopicConfig.retention_ms.doc,
        synonyms=(
            ConfigSynonym("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ConfigSynonym("log.retention.ms", "1000", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
        ),
    )


def test_run_time_broker_options_reach_topics() -> None:
    broker = BrokerConfig({"log.retention.ms": "1"}).with_dynamic({}, {"log.retention.ms": "2"})
    inherited = entry(TopicConfig.resolve({}, broker), "retention.ms")
    assert (inherited.value, inherited.source) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "1"}, 1),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-7"}, -1),
        ({"log.retention.ms": "-7"}, -1),
        ({"log.retention.hours": "2147483647"}, 2147483647 * 3_600_000),
    ],
)
def test_retention_takes_the_finest_unit_that_is_set(broker: dict[str, str], retention_ms: int) -> None:
    assert TopicConfig.resolve({}, BrokerConfig(broker)).retention_ms == retention_ms


def test_the_other_inherited_units() -> None:
    broker = BrokerConfig({"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9"})
    config = TopicConfig.resolve({}, broker)
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (7_200_000, 3_600_000, 9)
    assert TopicConfig.resolve({}, BrokerConfig({"log.flush.interval.ms": "8"})).flush_ms == 8


@pytest.mark.parametrize("name", sorted(TOPIC_REFUSALS))
def test_unsupported_options_are_refused_by_name(name: str) -> None:
    message = refusal(name, "1")
    assert message.startswith(f"{name} is a Kafka option that Tailrace does not support: ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.mss", "1", "Unknown topic config name: retention.mss (did you mean retention.ms?)"),
        ("zzz", "1", "Unknown topic config name: zzz"),
        ("", "1", "Unknown topic config name: "),
        ("log.retention.ms", "1", "Unknown topic config name: log.retention.ms (did you mean retention.ms?)"),
        ("retention.ms", None, "Null value not supported for topic config retention.ms"),
        ("retention.ms", "-2", "Invalid value '-2' for retention.ms: must be at least -1"),
        ("segment.bytes", "1000", "Invalid value '1000' for segment.bytes: must be at least 1048576"),
        ("segment.ms", "0", "Invalid value '0' for segment.ms: must be at least 1"),
        ("min.insync.replicas", "0", "Invalid value '0' for min.insync.replicas: must be at least 1"),
        ("max.message.bytes", "1e6", "Invalid value '1e6' for max.message.bytes: must be a 32-bit whole number"),
        (
            "message.timestamp.type",
            "createtime",
            "Invalid value 'createtime' for message.timestamp.type: must be one of CreateTime, LogAppendTime",
        ),
        (
            "cleanup.policy",
            "compact,compact",
            "Invalid value 'compact,compact' for cleanup.policy: must be delete, compact, both, or empty",
        ),
        (
            "cleanup.policy",
            "never",
            "Invalid value 'never' for cleanup.policy: must be delete, compact, both, or empty",
        ),
        (
            "compression.type",
            "none",
            "Invalid value 'none' for compression.type: must be one of producer, uncompressed, gzip, snappy, lz4, zstd",
        ),
    ],
)
def test_what_a_topic_cannot_have(name: str, text: str | None, message: str) -> None:
    assert refusal(name, text) == message


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        validate_topic_overrides({"a": "1", "preallocate": "true", "retention.ms": "1"}, BrokerConfig())
    assert [problem.name for problem in caught.value.problems] == ["a", "preallocate"]


def test_a_configuration_cannot_change() -> None:
    config = TopicConfig.resolve({}, BrokerConfig())
    with pytest.raises(AttributeError):
        config.retention_ms = 5
    with pytest.raises(TypeError):
        config.overrides["retention.ms"] = "5"  # type: ignore[index]


def test_every_topic_option_inherits_from_broker_options_that_exist_and_can_change() -> None:
    for option in TopicConfig.options.values():
        names = [synonym.name for synonym in option.broker_synonyms]
        if option.is_hidden or option.name.endswith("replication.throttled.replicas"):
            assert names == []
            continue
        assert names, option.name
        first = broker_options()[names[0]]
        assert first.update_mode is UpdateMode.CLUSTER_WIDE, first.name
        assert all(broker_options()[name].inert is None for name in names)


def test_families_of_units_are_those_that_topics_inherit_from() -> None:
    inherited = {tuple(synonym.name for synonym in option.broker_synonyms) for option in TopicConfig.options.values()}
    assert set(SYNONYM_FAMILIES) <= inherited


def test_records_cannot_have_to_wait_for_longer_than_they_may() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms \(5\) must not be greater than"):
        TopicConfig.resolve({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, BrokerConfig())


def test_an_error_lists_so_many_problems_only() -> None:
    """A topic with 100,000 unknown configs took 30 s of the event loop, to find similar names for all of them."""
    with pytest.raises(InvalidConfigError) as caught:
        validate_topic_overrides({f"unknown.{number}": "1" for number in range(1000)}, BrokerConfig())
    assert [problem.name for problem in caught.value.problems] == [f"unknown.{number}" for number in range(20)]


def test_a_name_that_is_longer_than_any_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a name similar to one of 32 KB took 10 ms."""
    compared = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda name, *_, **__: compared.append(name))
    assert suggestion("n" * 249, ["m"]) == suggestion("n" * 250, ["m"]) == ""
    assert compared == ["n" * 249]
