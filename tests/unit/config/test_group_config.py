"""Options of groups: the group's own values, the broker's, and the bounds between which they must lie."""

import pytest

from tailrace.config.alter import Alteration, AlterOperation, alter_group_overrides
from tailrace.config.broker import BrokerConfig
from tailrace.config.configuration import ConfigSource
from tailrace.config.error import ConfigError
from tailrace.config.group import GroupConfig

BROKER = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})


def test_a_group_takes_its_own_value_then_the_brokers_then_the_default() -> None:
    group = GroupConfig.resolve({"consumer.heartbeat.interval.ms": "6000"}, BROKER)
    assert group.consumer_heartbeat_interval_ms == 6_000
    assert group.consumer_session_timeout_ms == 50_000
    assert group.consumer_assignment_interval_ms == 1_000
    assert {entry.name: (entry.value, entry.source) for entry in group.entries()} == {
        "consumer.assignment.interval.ms": ("1000", ConfigSource.DEFAULT_CONFIG),
        "consumer.heartbeat.interval.ms": ("6000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        "consumer.session.timeout.ms": ("50000", ConfigSource.STATIC_BROKER_CONFIG),
    }
    synonyms = {entry.name: entry.synonyms for entry in group.entries()}["consumer.heartbeat.interval.ms"]
    assert [(synonym.name, synonym.value) for synonym in synonyms] == [
        ("consumer.heartbeat.interval.ms", "6000"),
        ("group.consumer.heartbeat.interval.ms", "5000"),
    ]


def test_a_value_that_has_come_to_lie_outside_the_bounds_counts_as_the_nearest_within() -> None:
    narrower = BrokerConfig({"group.consumer.max.heartbeat.interval.ms": "7000"})
    group = GroupConfig.resolve({"consumer.heartbeat.interval.ms": "15000"}, narrower)
    assert group.consumer_heartbeat_interval_ms == 7_000


def alter(name: str, value: str) -> dict[str, str]:
    return alter_group_overrides({}, [Alteration(name, AlterOperation.SET, value)], BROKER)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("consumer.session.timeout.ms", "44999", "greater than or equal to group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "60001", "less than or equal to group.consumer.max.session.timeout.ms"),
        ("consumer.heartbeat.interval.ms", "4999", "greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "15001", "group.consumer.max.assignment.interval.ms"),
        ("consumer.heartbeat.interval.ms", "often", "Invalid value"),
        ("consumer.heartbeats", "1", "Unknown group config name"),
        ("share.session.timeout.ms", "45000", "not supported"),
    ],
)
def test_what_a_group_cannot_have(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        alter(name, value)


def test_the_values_at_the_bounds_are_fine() -> None:
    assert alter("consumer.session.timeout.ms", "45000") == {"consumer.session.timeout.ms": "45000"}
    assert alter("consumer.session.timeout.ms", "60000") == {"consumer.session.timeout.ms": "60000"}


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"min.session.timeout.ms": "50000"}, "session.timeout.ms must be greater than or equal to"),
        ({"max.heartbeat.interval.ms": "4000"}, "max.heartbeat.interval.ms must be greater than or equal to"),
        ({"heartbeat.interval.ms": "20000"}, "heartbeat.interval.ms must be less than or equal to"),
        (
            {"heartbeat.interval.ms": "46000", "max.heartbeat.interval.ms": "46000"},
            "heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        ({"assignors": "uniform,org.example.Mine"}, "not a supported assignor"),
        ({"assignors": ""}, "a list of different ones"),
        ({"migration.policy": "sideways"}, "one of bidirectional"),
    ],
)
def test_what_a_broker_cannot_have(texts: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig({f"group.consumer.{name}": text for name, text in texts.items()})


def test_the_migration_policy_is_read_without_regard_to_case() -> None:
    assert BrokerConfig({"group.consumer.migration.policy": "Upgrade"}).group_consumer_migration_policy == "Upgrade"
