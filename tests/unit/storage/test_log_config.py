"""The configs of a log come from those of its topic."""

from dataclasses import asdict, fields

from tailrace.config.broker import BrokerConfig
from tailrace.config.topic import TopicConfig
from tailrace.storage.log_config import LogConfig

ELSEWHERE = {"cleanup_policy_delete", "cleanup_policy_compact", "producer_id_expiration_ms"}
TEXTS = {"message.timestamp.type": "LogAppendTime", "min.cleanable.dirty.ratio": "0.25"}


def test_the_defaults_of_a_log_are_those_of_a_topic() -> None:
    assert LogConfig.of_topic(TopicConfig.resolve({}, BrokerConfig())) == LogConfig()


def test_every_config_that_a_log_uses_follows_its_topic() -> None:
    names = [field.name for field in fields(LogConfig) if field.name not in ELSEWHERE]
    options = [getattr(TopicConfig, name) for name in names]
    overrides = {option.name: TEXTS.get(option.name, str(7_000_000 + place)) for place, option in enumerate(options)}
    topic = TopicConfig.resolve(overrides, BrokerConfig())
    found = asdict(LogConfig.of_topic(topic))
    assert {name: found[name] for name in names} == {name: getattr(topic, name) for name in names}
    assert not {name for name in names if found[name] == getattr(LogConfig(), name)}


def test_what_is_not_a_number_of_the_topic() -> None:
    broker = BrokerConfig({"producer.id.expiration.ms": "1234"})
    found = LogConfig.of_topic(TopicConfig.resolve({"cleanup.policy": "compact"}, broker))
    assert (found.cleanup_policy_delete, found.cleanup_policy_compact) == (False, True)
    assert found.producer_id_expiration_ms == 1234


def test_internal_segment_bytes_goes_before_segment_bytes() -> None:
    """It was accepted and changed nothing."""
    overrides = {"segment.bytes": "2000000", "internal.segment.bytes": "1000"}
    assert LogConfig.of_topic(TopicConfig.resolve(overrides, BrokerConfig())).segment_bytes == 1000
