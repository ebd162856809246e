"""Servers that runs kill and start again, and brokers among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.faults.broker_process import BrokerProcess
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster

OPTIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "4"}
CLUSTER_OPTIONS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
}


class Killable(Protocol):
    """A server whose data outlives its processes."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


@contextmanager
def running_brokers(count: int, folder: Path) -> Iterator[tuple[str, list[Killable]]]:
    """One broker, or a cluster of three, and how to reach them."""
    if count == 1:
        broker = BrokerProcess(folder, OPTIONS)
        broker.start()
        try:
            yield broker.address, [broker]
        finally:
            broker.kill()
    else:
        cluster = Cluster(folder, Network(), OPTIONS | CLUSTER_OPTIONS, server_count=1)
        try:
            cluster.start()
            yield cluster.bootstrap_servers, list(cluster.brokers.values())
        finally:
            cluster.end()
