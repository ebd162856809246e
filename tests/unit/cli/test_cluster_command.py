"""`runnel cluster` as a user calls it: real processes that are started, killed, brought back and stopped."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.unit.cli.command import called, succeeded
from tests.unit.cli.conftest import Run
from tests.unit.coordination.zookeeper_process import require_zookeeper

RECORDS = [f"record {number}" for number in range(500)]


def status_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(succeeded("cluster", "status", "--data", str(folder), "--json"))
    return found


def test_a_cluster_outlives_a_broker_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    require_zookeeper()
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    folder = tmp_path / "cluster"
    session = "zookeeper.session.timeout.ms=3000"
    try:
        output = succeeded("cluster", "start", "--brokers", "3", "--data", str(folder), "--port", "0", "--set", session)
        brokers = status_of(folder)
        assert [broker["id"] for broker in brokers] == [1, 2, 3]
        assert [broker["state"] for broker in brokers] == ["running"] * 3
        addresses = [broker["address"] for broker in brokers]
        ready = [f"runnel: broker {number} ready on {address}" for number, address in enumerate(addresses, 1)]
        assert output.splitlines() == [*ready, f"runnel: cluster ready on {','.join(addresses)}"]

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
        assert succeeded("cluster", "stop", "--broker", "3", "--data", str(folder)) == "runnel: broker-3 stopped\n"
        others = ("--bootstrap-server", ",".join(addresses[:2]))
        told = succeeded("cluster", "unregister", "--id", "3", *others)
        assert told == "broker 3 is no longer part of the cluster\n"
        status, output, complaint = called("cluster", "unregister", "--id", "3", *others)
        assert (status, output) == (1, "")
        assert "Broker 3 is not registered" in complaint
    finally:
        stopped = succeeded("cluster", "stop", "--data", str(folder))
    assert stopped.splitlines()[-1] == "runnel: zookeeper stopped"
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    assert [broker["state"] for broker in status_of(folder)] == ["stopped"] * 3


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["start"], 2, "say with --brokers how many"),
        (["start", "--brokers", "3", "--broker", "1"], 2, "give --brokers for all of them or --broker for one"),
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
        "runnel: BROKER_ID_NOT_REGISTERED: Broker 9 is not registered.\n",
    )
    status, output, complaint = run("cluster", "unregister", "--id", "1", "--json")
    assert (status, output) == (1, "")
    assert "Broker 1 is the controller; stop it first." in complaint
    assert "Missing option '--id'" in run("cluster", "unregister")[2]
    assert run("topic", "list")[0] == 0, "it is still there"
