"""kill -9 of the broker under a group with live members: the group finds itself again, and its offsets are intact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.group_run import GroupRun, Plan
from tests.faults.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

KILL_COUNT = 2
TIMEOUT_S = 60.0
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, OPTIONS)
    broker.start()
    yield broker
    broker.kill()


def wait_for_commits(group: GroupRun, before: int) -> None:
    """Wait until the group has committed more than that."""
    group.wait_until(lambda: group.committed_count > before, "the group goes on", TIMEOUT_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_outlives_its_broker(protocol: str, process: BrokerProcess, tmp_path: Path) -> None:
    """Members stay, and nothing that was committed is forgotten or read as if it had not been."""
    plan = Plan(("tailrace", "confluent-kafka", "tailrace", "confluent-kafka"), protocol, "range", session_ms=3000)
    with GroupRun(process.address, f"killed-{protocol}", plan, tmp_path) as group:
        group.wait_until_all_read(TIMEOUT_S)
        for _ in range(KILL_COUNT):
            before = group.committed_count
            process.kill()
            process.start()
            wait_for_commits(group, before)
        group.wait_until_owned(TIMEOUT_S)
        group.finish(TIMEOUT_S)
    assert "Traceback" not in process.log
