"""What does not belong into a cluster, and a ZooKeeper that is gone for a while, seen from outside.

Three brokers and a ZooKeeper run as processes of their own. Whoever is wrong hears what is wrong and what to do;
the others go on.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster
from tests.unit.coordination.zookeeper_process import require_zookeeper
from tests.unit.sample import make_batch

import tailrace
from tailrace.client.address import parse_addresses
from tailrace.client.admin.core import NewTopic
from tailrace.client.connection import Connection
from tailrace.client.metadata import Partition, Topic
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
)
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)

pytestmark = pytest.mark.slow

SESSION_TIMEOUT_MS = 6000
OPTIONS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
TOPIC = "t"
WAIT_S = 60.0
NEVER_EPOCH = 2**62


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_zookeeper()
    made = Cluster(tmp_path_factory.mktemp("cluster"), Network(), OPTIONS, server_count=1)
    try:
        made.start()
        with tailrace.Admin(made.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, partition_count=1)])
        write(made, b"first")
        yield made
    finally:
        made.end()


def write(cluster: Cluster, value: bytes) -> None:
    """Have one record acknowledged by all that are in sync."""
    with tailrace.Producer(cluster.bootstrap_servers, acks="all") as producer:
        producer.send(TOPIC, value).result(WAIT_S)


async def ask(address: str, request, reply_type, version: int):  # type: ignore[no-untyped-def]
    connection = await Connection.open(parse_addresses(address)[0])
    try:
        return await connection.request(request, reply_type, version_max=version)
    finally:
        await connection.close()


def run_to_its_end(cluster: Cluster, data: Path, **settings: str) -> tuple[int, str]:
    """Start one more broker, which should not stay; its exit status and what it says."""
    connect = next(word for word in cluster.brokers[1]._command if word.startswith("zookeeper.connect="))
    options = {
        "initial.broker.registration.timeout.ms": "1000",
        **{key.replace("_", "."): settings[key] for key in settings},
    }
    command = [sys.executable, "-m", "tailrace.cli.main", "start", "--listen", "127.0.0.1:0", "--data", str(data)]
    command += [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    done = subprocess.run([*command, "--set", connect], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "ready on" not in done.stdout
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


# --- fetches that are no follower's


@pytest.mark.parametrize(
    ("who", "epoch", "leader_epoch", "code"),
    [
        ("a broker that nobody knows", NEVER_EPOCH, None, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("an earlier life of a follower", 1, None, ErrorCode.STALE_BROKER_EPOCH),
        ("a follower of a later leader", NEVER_EPOCH, 9, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("a follower that names no leader epoch", NEVER_EPOCH, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_replica_fetch_that_is_refused(
    cluster: Cluster, who: str, epoch: int, leader_epoch: int | None, code: ErrorCode
) -> None:
    while True:
        state, refused = refuse(cluster, is_known=who != "a broker that nobody knows", epoch=epoch, leader=leader_epoch)
        if described(cluster).partitions[0].leader_epoch == state.leader_epoch:
            break  # the leader may have lost its session on a busy machine
    assert refused is code
    write(cluster, who.encode())


def described(cluster: Cluster) -> Topic:
    with tailrace.Admin(cluster.bootstrap_servers) as admin:
        topic = admin.describe_topics([TOPIC])[TOPIC]
    assert isinstance(topic, Topic)
    return topic


def refuse(cluster: Cluster, *, is_known: bool, epoch: int, leader: int | None) -> tuple[Partition, ErrorCode]:
    """Fetch as a follower, and hear why not; with the partition as it was."""
    topic = described(cluster)
    state = topic.partitions[0]
    wanted = FetchRequestPartition(
        partition=0,
        fetch_offset=10_000,
        partition_max_bytes=1,
        current_leader_epoch=state.leader_epoch if leader is None else leader,
    )
    follower = next(each for each in state.replicas if each != state.leader_id) if is_known else 99
    request = FetchRequest(
        replica_state=FetchRequestReplicaState(replica_id=follower, replica_epoch=epoch),
        topics=[FetchRequestTopic(topic_id=topic.topic_id, partitions=[wanted])],
    )
    response = asyncio.run(ask(cluster.addresses[state.leader_id], request, FetchResponse, 17))
    return state, ErrorCode(response.error_code or response.responses[0].partitions[0].error_code)


# --- brokers that do not belong here


def test_a_second_broker_with_the_same_id_ends_and_the_first_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    status, line = run_to_its_end(cluster, tmp_path / "twin", node_id="2")
    assert status == 1
    assert f"broker 2 is running already, at {cluster.addresses[2]}; each broker needs its own node.id" in line
    write(cluster, b"after the twin")
    assert cluster.brokers[2].is_running


def test_a_broker_of_another_cluster_ends(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "meta.properties").write_text("version=1\ncluster.id=another-cluster\nnode.id=4\n")
    before = sorted(folder.iterdir())
    status, line = run_to_its_end(cluster, folder, node_id="4")
    assert status == 1
    assert "says that the logs belong to cluster another-cluster, but this broker joins cluster " in line
    assert "give it another folder, or the metadata store of its own cluster" in line
    assert sorted(folder.iterdir()) == before
    write(cluster, b"after the foreigner")


# --- ZooKeeper is gone


def test_without_zookeeper_leaders_stop_acknowledging_and_come_back(cluster: Cluster) -> None:
    """What was acknowledged before is there, and what a producer sent meanwhile is written once."""
    server = cluster.servers[1]
    with tailrace.Producer(cluster.bootstrap_servers, acks="all", delivery_timeout_ms=300_000) as producer:
        sent = [producer.send(TOPIC, b"before %d" % number) for number in range(100)]
        for future in sent:
            future.result(WAIT_S)
        server.kill()
        refused_at = until_refused(cluster)
        waiting = [producer.send(TOPIC, b"meanwhile %d" % number) for number in range(100)]
        # A shortened minute: twice as long as a session lives, nobody acknowledges anything.
        while time.monotonic() < refused_at + 2 * SESSION_TIMEOUT_MS / 1000:
            assert ErrorCode.NONE not in produce_once(cluster)
        assert not any(future.done() for future in waiting)
        server.start()
        for future in waiting:
            future.result(WAIT_S)
    values = read_all(cluster)
    for word in (b"before %d", b"meanwhile %d"):
        assert [value for value in values if value.startswith(word[:6])] == [word % number for number in range(100)]
    for broker in cluster.brokers.values():
        assert "ZooKeeper is not reachable: " in broker.log
        assert "this broker acknowledges nothing until it answers" in broker.log
        assert "Traceback" not in broker.log


def until_refused(cluster: Cluster) -> float:
    """Wait until no session can be alive; a busy broker that was late with an answer may still take the next record."""
    over_s = time.monotonic() + SESSION_TIMEOUT_MS / 1000
    deadline_s = over_s + WAIT_S
    while ErrorCode.NONE in produce_once(cluster) or time.monotonic() < over_s:
        assert time.monotonic() < deadline_s
    return time.monotonic()


def produce_once(cluster: Cluster) -> set[ErrorCode]:
    """What each broker says to a record; only one of them may take it."""
    data = ProduceRequestPartition(index=0, records=bytes(make_batch(b"once")))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[ProduceRequestTopic(name=TOPIC, partition_data=[data])]
    )
    codes = set()
    for address in cluster.addresses.values():
        response = asyncio.run(ask(address, request, ProduceResponse, 9))
        codes.add(ErrorCode(response.responses[0].partition_responses[0].error_code))
    return codes


def read_all(cluster: Cluster) -> list[bytes]:
    table = tailrace.read_table(cluster.bootstrap_servers, TOPIC)
    values: list[bytes] = table.column("value").to_pylist()
    return values
