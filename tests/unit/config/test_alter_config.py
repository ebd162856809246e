"""SET, DELETE, APPEND and SUBTRACT on what a topic or a broker has set."""

import pytest

from tailrace.config import Alteration, AlterOperation, ConfigError, alter_broker_configs, alter_topic_overrides
from tailrace.config.alter import alter_group_overrides
from tailrace.config.broker import BrokerConfig

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def test_operations_have_kafkas_codes() -> None:
    assert [(operation.name, operation.value) for operation in AlterOperation] == [
        ("SET", 0),
        ("DELETE", 1),
        ("APPEND", 2),
        ("SUBTRACT", 3),
    ]


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.ms": "2"}
    altered = alter_topic_overrides(
        current,
        [Alteration("retention.ms", SET, "5"), Alteration("segment.ms", DELETE), Alteration("flush.ms", DELETE)],
        BrokerConfig(),
    )
    assert altered == {"retention.ms": "5"}
    assert current == {"retention.ms": "1", "segment.ms": "2"}


@pytest.mark.parametrize(
    ("current", "operation", "value", "expected"),
    [
        ({}, APPEND, "delete", "delete"),
        ({"cleanup.policy": "delete"}, APPEND, "delete", "delete"),
        ({"cleanup.policy": "delete"}, SUBTRACT, "compact", "delete"),
        ({}, APPEND, "compact", "delete,compact"),
        ({}, SUBTRACT, "delete", ""),
        ({"cleanup.policy": "delete,compact"}, SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_grow_and_shrink_from_their_value_or_default(
    current: dict[str, str], operation: AlterOperation, value: str, expected: str
) -> None:
    assert alter_topic_overrides(current, [Alteration("cleanup.policy", operation, value)], BrokerConfig()) == {
        "cleanup.policy": expected
    }


@pytest.mark.parametrize(
    ("alteration", "reason"),
    [
        (Alteration("cleanup.policy", APPEND, "shred"), "must be delete, compact, both, or empty"),
        (Alteration("retention.ms", APPEND, "5"), "Can't APPEND to retention.ms: its type is not LIST"),
        (Alteration("retention.ms", SUBTRACT, "5"), "Can't SUBTRACT to retention.ms: its type is not LIST"),
        (Alteration("retention.ms", SET, None), "Null value not supported"),
        (Alteration("cleanup.policy", APPEND, None), "Null value not supported"),
        (Alteration("retention.ms", SET, "soon"), "must be a 64-bit whole number"),
        (Alteration("no.such", SET, "1"), "Unknown topic config name: no.such"),
        (Alteration("preallocate", SET, "false"), "Tailrace does not support"),
    ],
)
def test_bad_alterations_of_a_topic_are_refused(alteration: Alteration, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        alter_topic_overrides({}, [alteration], BrokerConfig())
    assert caught.value.name == alteration.name
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("operation", "per_broker", "reason"),
    [
        (SET, True, "cannot be set for one broker"),
        (DELETE, True, "cannot be set for one broker"),
        (DELETE, False, "cannot be removed for the cluster"),
    ],
)
def test_the_minimum_of_replicas_in_sync_is_the_clusters(
    operation: AlterOperation, per_broker: bool, reason: str
) -> None:
    alteration = Alteration("min.insync.replicas", operation, "2" if operation is SET else None)
    with pytest.raises(ConfigError) as caught:
        alter_broker_configs({"min.insync.replicas": "3"}, [alteration], per_broker=per_broker)
    assert caught.value.name == "min.insync.replicas"
    assert reason in caught.value.message
    changed = alter_broker_configs({}, [Alteration("min.insync.replicas", SET, "2")], per_broker=False)
    assert changed == {"min.insync.replicas": "2"}


def test_broker_options() -> None:
    altered = alter_broker_configs({}, [Alteration("log.retention.ms", SET, "5")], per_broker=False)
    assert altered == {"log.retention.ms": "5"}
    assert alter_broker_configs(altered, [Alteration("log.retention.ms", DELETE)], per_broker=False) == {}


@pytest.mark.parametrize(
    ("alteration", "reason"),
    [
        (Alteration("listeners", APPEND, "PLAINTEXT://:1"), "Cannot update this config dynamically"),
        (Alteration("num.io.threads", SET, "3"), "has no effect in Tailrace"),
        (Alteration("max.connections", APPEND, "3"), "its type is not LIST"),
        (Alteration("no.such", SET, "3"), "Unknown broker config name: no.such"),
        (Alteration("ssl.engine.factory.class", SET, "hunter2"), "Tailrace does not support"),
    ],
)
def test_bad_alterations_of_a_broker_are_refused(alteration: Alteration, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        alter_broker_configs({}, [alteration], per_broker=True)
    assert reason in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("name", ["no.such", "preallocate", "retention.ms", "leader.replication.throttled.rate"])
def test_deleting_what_is_not_set_is_no_error(name: str) -> None:
    """Kafka's kafka-reassign-partitions deletes throttles that are not set, and MirrorMaker deletes configs that only
    the other cluster knows. A name that is not supported failed the whole request.
    """
    alterations = [Alteration(name, DELETE), Alteration("cleanup.policy", SET, "compact")]
    assert alter_topic_overrides({}, alterations, BrokerConfig()) == {"cleanup.policy": "compact"}
    assert alter_broker_configs({}, alterations[:1], per_broker=True) == {}
    assert alter_group_overrides({}, alterations[:1], BrokerConfig({})) == {}
