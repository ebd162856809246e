"""Users and ACLs of a cluster whose brokers are killed: every broker has every change that a client was told of."""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from tests.faults.broker_process import BrokerProcess
from tests.unit.cli.command import succeeded
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.slow

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "zookeeper.session.timeout.ms": "3000",
}


def test_users_and_acls_are_on_every_broker_whichever_is_killed(tmp_path: Path, zookeeper: ZooKeeperProcess) -> None:
    connect = f"{zookeeper.address}/{uuid4().hex}"
    brokers = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = {**OPTIONS, "zookeeper.connect": connect, "node.id": str(number)}
        brokers.append(BrokerProcess(folder, options))
    with ExitStack() as stack:
        for broker in brokers:
            broker.start()
            stack.callback(broker.kill)
        add_user(brokers[1], "alice")
        add_acl(brokers[2], "orders")
        expect(brokers, ["alice"], ["orders"])
        brokers[0].kill()  # the first one was the controller, and changes need none
        add_user(brokers[2], "bob")
        add_acl(brokers[1], "payments")
        brokers[1].kill()
        expect([brokers[2]], ["alice", "bob"], ["orders", "payments"])
        for broker in brokers[:2]:
            broker.start()
        succeeded("user", "delete", "alice", "--bootstrap-server", brokers[0].address)
        expect(brokers, ["bob"], ["orders", "payments"])


def add_user(broker: BrokerProcess, name: str) -> None:
    succeeded("user", "add", name, "--bootstrap-server", broker.address, words="secret\n")


def add_acl(broker: BrokerProcess, topic: str) -> None:
    arguments = ("--principal", "User:alice", "--operation", "read", "--topic", topic)
    succeeded("acl", "add", *arguments, "--bootstrap-server", broker.address)


def expect(brokers: list[BrokerProcess], users: list[str], topics: list[str]) -> None:
    """Wait until each broker lists these users and the ACLs of these topics."""
    deadline_s = time.monotonic() + 60
    for broker in brokers:
        while (found := (listed(broker, "user"), listed(broker, "acl"))) != (users, topics):
            assert time.monotonic() < deadline_s, found


def listed(broker: BrokerProcess, command: str) -> list[str]:
    found = json.loads(succeeded(command, "list", "--json", "--bootstrap-server", broker.address))
    return [each["name"] for each in found]
