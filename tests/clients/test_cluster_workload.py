"""The same workload against three brokers, and one of them dies while a client writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.clients.roster import CLIENTS, Run, check_written, read_and_change, write
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster
from tests.unit.coordination.zookeeper_process import require_zookeeper

pytestmark = pytest.mark.slow

OPTIONS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "log.retention.ms": "-1",  # the records of the workload have the time of another year
}
EXACT = "kafka-clients 4"
"""A client whose records are there once and in order whatever happens: its producer is idempotent by default."""
ATTEMPT_COUNT_MAX = 5
WAIT_S = 60.0

ALL = [
    pytest.param(*client.values, id=client.id, marks=[mark for mark in client.marks if mark.name == "needs"])
    for client in CLIENTS
]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers and one ZooKeeper server, in processes of their own."""
    require_zookeeper()
    made = Cluster(tmp_path_factory.mktemp("cluster"), Network(), OPTIONS, server_count=1)
    try:
        made.start()
        yield made
    finally:
        made.end()
    for broker in made.brokers.values():
        assert "Traceback" not in broker.log


@pytest.mark.parametrize(("name", "run"), ALL)
def test_workload_on_three_brokers(name: str, run: Run, cluster: Cluster, topic: str) -> None:
    """Every partition has three replicas, and the three partitions three leaders."""
    servers = cluster.addresses[1]  # the programs take one, and hear of the others from it
    write(name, run, servers, topic)
    partitions = AdminClient({"bootstrap.servers": servers}).list_topics(topic, WAIT_S).topics[topic].partitions
    assert {tuple(sorted(partition.replicas)) for partition in partitions.values()} == {(1, 2, 3)}
    read_and_change(name, run, servers, topic)


@pytest.mark.parametrize(("name", "run"), [client for client in ALL if client.values[0] == EXACT])
def test_a_leader_dies_while_a_client_writes(name: str, run: Run, cluster: Cluster) -> None:
    """Nothing is missing, nothing is there twice, and all is in order."""
    servers = cluster.bootstrap_servers
    with ThreadPoolExecutor(1) as pool:
        for attempt in range(ATTEMPT_COUNT_MAX):
            topic = f"dying-{attempt}-{uuid.uuid4().hex[:8]}"
            writing = pool.submit(run, "write", servers, topic)
            leader = _first_leader(servers, topic, writing)
            if leader is None:
                continue
            # First of all it does not answer any more: a quick client would be done before it is dead.
            cluster.brokers[leader].pause()
            is_in_the_middle = not writing.done()
            cluster.brokers[leader].kill()
            try:
                check_written(name, servers, topic, writing.result())
                if is_in_the_middle:
                    return
            finally:
                cluster.brokers[leader].start()
    pytest.fail(f"{name} was always faster than the death of a broker")


def _first_leader(servers: str, topic: str, writing: Future[dict[str, Any]]) -> int | None:
    """The leader of partition 0 as soon as there is one; None if all has been written before anybody saw that."""
    admin = AdminClient({"bootstrap.servers": servers})
    while not writing.done():
        found = admin.list_topics(timeout=WAIT_S).topics.get(topic)
        if found is not None and 0 in found.partitions and found.partitions[0].leader > 0:
            return int(found.partitions[0].leader)
    writing.result()
    return None
