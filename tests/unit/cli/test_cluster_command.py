"""`tailrace cluster` as a user calls it: real processes that are started, killed, brought back and stopped."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.unit.cli.command import called, succeeded
from tests.unit.cli.conftest import Run
from tests.unit.coordination.zookeeper_process import require_zookeeper

from tailrace.cli.cluster_plan import PLAN_FILE_NAME

pytestmark = pytest.mark.slow

RECORDS = [f"record {number}" for number in range(500)]


def processes_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeded("cluster", "status", "--data", str(folder), "--json"))
    return found


def status_of(folder: Path) -> list[dict[str, Any]]:
    brokers: list[dict[str, Any]] = processes_of(folder)["brokers"]
    return brokers


def running_in(folder: Path) -> list[str]:
    """The command lines of processes that were started for a cluster."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_cluster_outlives_a_broker_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    require_zookeeper()
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    folder = tmp_path / "cluster"
    session, secret = "zookeeper.session.timeout.ms=6000", "delegation.token.secret.key=c-41be"
    start = ("cluster", "start", "--brokers", "3", "--data", str(folder), "--port", "0")
    try:
        output = succeeded(*start, "--set", session, "--set", secret)
        assert not any("c-41be" in line for line in running_in(folder))
        brokers = status_of(folder)
        assert [broker["id"] for broker in brokers] == [1, 2, 3]
        assert [broker["state"] for broker in brokers] == ["running"] * 3
        addresses = [broker["address"] for broker in brokers]
        ready = [f"tailrace: broker {number} ready on {address}" for number, address in enumerate(addresses, 1)]
        assert output.splitlines() == [*ready, f"tailrace: cluster ready on {','.join(addresses)}"]

        succeeded("topic", "create", "views", "--partitions", "3", "--bootstrap-server", addresses[0])
        half = len(RECORDS) // 2
        everywhere = ("--bootstrap-server", ",".join(addresses))
        succeeded("produce", "views", *everywhere, words="\n".join(RECORDS[:half]))
        os.kill(brokers[1]["pid"], signal.SIGKILL)
        assert [broker["pid"] is None for broker in status_of(folder)] == [False, True, False]
        succeeded("produce", "views", *everywhere, words="\n".join(RECORDS[half:]))
        output = succeeded("cluster", "start", "--broker", "2", "--data", str(folder))
        assert output == ready[1] + "\n"
        taken = succeeded("consume", "views", "--from", "beginning", "--count", str(len(RECORDS)), *everywhere)
        assert sorted(taken.splitlines()) == sorted(RECORDS)
        pids = [broker["pid"] for broker in status_of(folder)]
        pids.append(processes_of(folder)["zookeeper"]["pid"])
        listed = succeeded("cluster", "status", "--data", str(folder)).splitlines()
        assert [line.split("\t")[0] for line in listed] == ["broker-1", "broker-2", "broker-3", "zookeeper"]
        assert succeeded("cluster", "stop", "--broker", "3", "--data", str(folder)) == "tailrace: broker-3 stopped\n"
        others = ("--bootstrap-server", ",".join(addresses[:2]))
        told = succeeded("cluster", "unregister", "--id", "3", *others)
        assert told == "broker 3 is no longer part of the cluster\n"
        status, output, complaint = called("cluster", "unregister", "--id", "3", *others)
        assert (status, output) == (1, "")
        assert "Broker 3 is not registered" in complaint
    finally:
        stopped = succeeded("cluster", "stop", "--data", str(folder), "--json")
    assert json.loads(stopped) == {"stopped": ["broker-1", "broker-2", "zookeeper"]}
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    assert [broker["state"] for broker in status_of(folder)] == ["stopped"] * 3
    zookeeper = processes_of(folder)["zookeeper"]
    assert (zookeeper["pid"], zookeeper["state"]) == (None, "stopped")


def test_a_start_that_fails_leaves_nothing_running_and_nothing_remembered(tmp_path: Path, taken_port: int) -> None:
    """ZooKeeper and the other brokers ran on, and the next start used the same config again."""
    require_zookeeper()
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    folder = tmp_path / "cluster"
    wrong = f"tailrace.metrics.listener=127.0.0.1:{taken_port}"
    start = ("cluster", "start", "--brokers", "2", "--data", str(folder), "--port", "0")
    status, _, complaint = called(*start, "--set", wrong)
    assert status == 1
    assert "did not start" in complaint
    assert str(taken_port) in complaint
    assert running_in(folder) == []
    assert {path.suffix for path in folder.iterdir()} == {".log", ".out"}

    succeeded(*start)
    try:
        before = (folder / PLAN_FILE_NAME).read_bytes()
        status, _, _ = called(
            "cluster", "start", "--brokers", "3", "--data", str(folder), "--port", "0", "--set", wrong
        )
        assert status == 1
        assert (folder / PLAN_FILE_NAME).read_bytes() == before
        assert [broker["state"] for broker in status_of(folder)] == ["running"] * 2, "they ran before"
        assert not any("broker-3" in line for line in running_in(folder))
    finally:
        succeeded("cluster", "stop", "--data", str(folder))


def test_a_config_that_brokers_refuse_is_named_before_anything_starts(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    start = ("cluster", "start", "--brokers", "3", "--data", str(folder), "--port", "0")
    status, output, complaint = called(*start, "--set", "no.such.option=1")
    assert (status, output) == (1, "")
    assert "--set no.such.option" in complaint
    assert not folder.exists()


def test_a_port_that_is_taken_is_named_with_the_option_to_change(tmp_path: Path, taken_port: int) -> None:
    folder = tmp_path / "cluster"
    start = ("cluster", "start", "--brokers", "1", "--data", str(folder))
    status, output, complaint = called(*start, "--port", str(taken_port))
    assert (status, output) == (1, "")
    assert complaint == (
        f"tailrace: broker-1 cannot listen on 127.0.0.1:{taken_port}: Address already in use; "
        "choose other ports with --port\n"
    )
    assert not folder.exists()


def test_the_broker_and_the_cluster_of_the_readme_can_run_at_the_same_time() -> None:
    """Both began at port 9092, so the second command of a newcomer failed."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    alone = re.search(r"tailrace start .*--listen 127\.0\.0\.1:(\d+)", readme)
    cluster = re.search(r"tailrace cluster start --brokers (\d+).* --port (\d+)", readme)
    assert alone
    assert cluster
    count, first = map(int, cluster.groups())
    assert int(alone[1]) not in range(first, first + count)


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["start"], 2, "set the number of brokers with --brokers"),
        (["start", "--brokers", "3", "--broker", "1"], 2, "--brokers and --broker cannot be combined"),
        (["start", "--brokers", "0"], 2, "0 is not in the range"),
        (["status"], 1, "there is no cluster in"),
        (["stop"], 1, "there is no cluster in"),
        (["start", "--brokers", "2", "--set", "nonsense"], 2, "'nonsense' is not NAME=VALUE"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(
    tmp_path: Path, arguments: list[str], status: int, complaint: str
) -> None:
    folder = tmp_path / "cluster"
    code, output, complaints = called("cluster", *arguments, "--data", str(folder))
    assert (code, output) == (status, "")
    assert complaint in complaints
    assert not folder.exists()


def test_a_broker_that_cannot_go_is_told_why(run: Run) -> None:
    assert run("cluster", "unregister", "--id", "9")[::2] == (
        1,
        "tailrace: BROKER_ID_NOT_REGISTERED: Broker 9 is not registered.\n",
    )
    status, output, complaint = run("cluster", "unregister", "--id", "1", "--json")
    assert (status, output) == (1, "")
    assert "Broker 1 is the controller; stop it first." in complaint
    assert "Missing option '--id'" in run("cluster", "unregister")[2]
    assert run("topic", "list")[0] == 0, "it is still there"
