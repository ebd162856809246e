"""A broker that was alone becomes the first of a cluster, with its logs where they are."""

import json
from pathlib import Path

import pytest
from tests.faults.broker_process import BrokerProcess
from tests.unit.cli.command import called, succeeded
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

from tailrace.base.limits import STORE_FILE_NAME

pytestmark = pytest.mark.slow

RECORDS = [f"record {number}" for number in range(200)]


def test_a_broker_that_was_alone_takes_its_topics_into_a_cluster(tmp_path: Path, zookeeper: ZooKeeperProcess) -> None:
    connect = f"zookeeper.connect={zookeeper.address}/import"
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    alone = BrokerProcess(folders[0], {})
    alone.start()
    server = ("--bootstrap-server", alone.address)
    succeeded("topic", "create", "views", "--partitions", "2", "--config", "retention.ms=777000000", *server)
    succeeded("produce", "views", *server, words="\n".join(RECORDS))
    succeeded("consume", "views", "--group", "readers", "--from", "beginning", "--count", str(len(RECORDS)), *server)
    assert alone.stop() == 0
    data = str(folders[0] / "data")

    status, _, complaints = called("start", "--data", data, "--listen", "127.0.0.1:0", "--set", connect)
    assert status == 1
    assert "`tailrace zookeeper import`" in complaints
    assert "entries copied" in succeeded("zookeeper", "import", "--data", data, "--set", connect)

    name, _, value = connect.partition("=")
    first, second = BrokerProcess(folders[0], {name: value}), BrokerProcess(folders[1], {name: value, "node.id": "2"})
    first.start()
    try:
        second.start()
        try:
            server = ("--bootstrap-server", second.address)
            described = succeeded("topic", "describe", "views", *server)
            assert "leader 1 replicas 1 isr 1" in described
            assert "config retention.ms=777000000" in described
            taken = succeeded("consume", "views", "--from", "beginning", "--count", str(len(RECORDS)), *server)
            assert sorted(taken.splitlines()) == sorted(RECORDS)
            succeeded("topic", "create", "both", "--replication-factor", "2", *server)
            assert json.loads(succeeded("group", "describe", "readers", "--json", *server))["lag"] == 0
        finally:
            second.kill()
    finally:
        first.kill()


def test_only_what_a_broker_that_is_stopped_left_is_imported(tmp_path: Path, zookeeper: ZooKeeperProcess) -> None:
    settings = ("--data", str(tmp_path / "data"), "--set", f"zookeeper.connect={zookeeper.address}/refused")
    status, output, complaints = called("zookeeper", "import", *settings)
    assert (status, output) == (1, "")
    assert f"{STORE_FILE_NAME} does not exist" in complaints
    broker = BrokerProcess(tmp_path, {})
    broker.start()
    try:
        status, output, complaints = called("zookeeper", "import", *settings)
        assert (status, output) == (1, "")
        assert "another broker uses this log folder" in complaints
    finally:
        broker.kill()


def test_an_import_needs_to_know_where_to(tmp_path: Path) -> None:
    status, _, complaints = called("zookeeper", "import", "--data", str(tmp_path))
    assert status == 2
    assert "zookeeper.connect" in complaints
