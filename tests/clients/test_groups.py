"""Groups of real clients, alone and mixed, whose members are killed with kill -9 while records flow.

`GROUP_RECORDS=100000` (`make test-groups`) lets more records flow, and kills members the more often. The name has no
prefix of ours: a broker takes those for options.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.group_run import CLIENTS, GroupRun, Plan
from tests.clients.own_broker import need_apis, need_client, own_broker

RECORD_COUNT = int(os.environ.get("GROUP_RECORDS", "2000"))
RECORDS_PER_KILL = 10_000
PER_SECOND = 1000 if RECORD_COUNT < RECORDS_PER_KILL else 3000
TIMEOUT_S = 90.0 + RECORD_COUNT / 500
CONSUMER_GROUP_HEARTBEAT = 68
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(int(TIMEOUT_S * 3) + 600)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker in a process of its own, which bears with short sessions."""
    with own_broker(OPTIONS) as servers:
        yield servers


def _need(plan: Plan, bootstrap: str) -> None:
    """Skip what cannot be had here."""
    for client in plan.clients:
        need_client(CLIENTS[client])
    if plan.protocol == "consumer":
        need_apis(bootstrap, {CONSUMER_GROUP_HEARTBEAT}, "ConsumerGroupHeartbeat")


def _run(plan: Plan, bootstrap: str, folder: Path) -> None:
    """Kill one member after the other as records flow; each time the group must find itself again."""
    _need(plan, bootstrap)
    kill_count = max(1, RECORD_COUNT // RECORDS_PER_KILL)
    with GroupRun(bootstrap, f"group-{uuid.uuid4().hex[:8]}", plan, folder, per_second=PER_SECOND) as group:
        group.wait_until_all_read(TIMEOUT_S)
        for kill in range(kill_count):
            group.wait_until_sent(RECORD_COUNT * (kill + 1) // (kill_count + 1), TIMEOUT_S)
            group.replace(kill % len(plan.clients))
            group.wait_until_all_read(TIMEOUT_S)
        group.wait_until_sent(RECORD_COUNT, TIMEOUT_S)
        count = group.finish(TIMEOUT_S)
        assert count >= RECORD_COUNT
        members = " + ".join(dict.fromkeys(plan.clients))
        again = group.read_count - count
        print(f"{members} | {plan.protocol} | {len(plan.clients)} | {count:,} | {kill_count} | {again:,}")


ALONE = [
    pytest.param(client, protocol, id=f"{client.replace(' ', '-')}-{protocol}", marks=marks)
    for client, protocol, marks in (
        ("tailrace", "classic", []),
        ("tailrace", "consumer", []),
        ("confluent-kafka", "classic", []),
        ("confluent-kafka", "consumer", []),
        ("kafka-clients 4", "classic", [pytest.mark.needs("java")]),
        ("kafka-clients 4", "consumer", [pytest.mark.needs("java")]),
        ("kafka-python", "classic", []),
        ("aiokafka", "classic", []),
        ("franz-go", "classic", [pytest.mark.needs("go")]),
        ("kafkajs", "classic", [pytest.mark.needs("node")]),
    )
]


@pytest.mark.parametrize(("client", "protocol"), ALONE)
def test_a_group_of_one_client(client: str, protocol: str, bootstrap: str, tmp_path: Path) -> None:
    _run(Plan((client, client), protocol), bootstrap, tmp_path)


@pytest.mark.needs("java", "go", "node")
def test_a_classic_group_of_all_clients(bootstrap: str, tmp_path: Path) -> None:
    """What one client's leader assigns by range, the others understand."""
    _run(Plan(tuple(CLIENTS), "classic", "range"), bootstrap, tmp_path)


@pytest.mark.needs("java")
def test_a_consumer_group_of_all_clients_that_know_it(bootstrap: str, tmp_path: Path) -> None:
    _run(Plan(("tailrace", "confluent-kafka", "kafka-clients 4"), "consumer"), bootstrap, tmp_path)
