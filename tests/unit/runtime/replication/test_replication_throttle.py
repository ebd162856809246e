"""Replicas that catch up are held back where a topic says so."""

import pytest
from tests.now import now
from tests.unit.runtime.test_partition_role import Bench
from tests.unit.sample import ManualClock

from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.topic import TopicConfig
from tailrace.runtime.replication.throttle import ReplicationThrottle


def throttle(clock: ManualClock, rate: int = 1000) -> ReplicationThrottle:
    return ReplicationThrottle(1, clock, lambda: rate, lambda config: config.leader_replication_throttled_replicas)


@pytest.mark.parametrize(
    ("named", "expected"), [("", False), ("*", True), ("0:1", True), ("1:1,0:1", True), ("0:2,1:1", False)]
)
def test_what_a_topic_names_is_held_back(named: str, expected: bool) -> None:
    bench = Bench(leader_replication_throttled_replicas=named)
    assert throttle(ManualClock()).applies_to(bench.partition) is expected


@pytest.mark.parametrize("named", ["all", "0", "0:", "a:b", "0:1;1:1"])
def test_a_list_that_names_nothing_is_refused(named: str) -> None:
    with pytest.raises(ConfigError):
        TopicConfig.resolve({"leader.replication.throttled.replicas": named}, BrokerConfig())


@pytest.mark.parametrize(("rate", "wait_ms"), [(1000, 10_000), (0, 10_000_000)])
def test_what_was_sent_too_soon_is_waited_for(rate: int, wait_ms: int) -> None:
    clock = ManualClock()
    limit = throttle(clock, rate)
    assert not now(limit.is_exceeded)
    limit.take(10_000)
    clock.time_ms += wait_ms - 1000
    assert now(limit.is_exceeded)
    clock.time_ms += 1000
    assert not limit.is_exceeded
