"""Connectors that go from a real Kafka Connect cluster to our service, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from bench.kafka import Unavailable
from bench.kafka_connect import KafkaConnect, connect_classpath
from tests.connect_process import ConnectProcess
from tests.spark.conftest import require_spark

import tailrace
from tailrace.testing import Broker

require_spark()
pytestmark = pytest.mark.slow

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        running.create_topic("lines", 2)
        yield running


@pytest.fixture(autouse=True)
def _require_connect() -> None:
    try:
        connect_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


def _await(ask: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + 120
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, f"{found!r} is not {wanted!r}"
        time.sleep(0.1)


def _lines(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines()) if path.exists() else []


def _create(url: str, name: str, config: dict[str, str], state: str) -> None:
    """Create a connector, as soon as the worker does not rebalance any more."""
    body = {"name": name, "config": config, "initial_state": state}
    deadline = time.monotonic() + 120
    while (answer := httpx.post(f"{url}/connectors", json=body, timeout=60)).status_code != 201:
        assert answer.status_code == 409, answer.text
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)


def _states(url: str) -> dict[str, list[str]]:
    found = httpx.get(f"{url}/connectors?expand=status", timeout=60).json()
    return {
        name: [each["status"]["connector"]["state"], *(task["state"] for task in each["status"]["tasks"])]
        for name, each in found.items()
    }


def _offsets(url: str) -> dict[str, list[dict[str, object]]]:
    """How far the connectors are; nothing about one that cannot be asked while the worker rebalances."""
    found = {name: httpx.get(f"{url}/connectors/{name}/offsets", timeout=60).json() for name in ("in", "out")}
    return {name: each.get("offsets", []) for name, each in found.items()}


def _has_kept(broker: Broker, position: int, count: int) -> bool:
    """Whether the broker has the position of the source and the offsets of the sink, for whoever takes over."""
    positions = [json.loads(record.value or b"null") for record in broker.consume("connect-offsets")]
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("connect-out")
    return {"position": position} in positions and sum(each.offset for each in committed.values()) >= count


def test_connectors_move_to_our_service_and_back(broker: Broker, tmp_path: Path) -> None:
    """Each line of the input is in the output once, whoever has carried it."""
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    running = ["RUNNING", "RUNNING"]
    source.write_text("one\ntwo\n")
    with KafkaConnect(broker.bootstrap_servers) as theirs:
        for name, config in (
            ("in", {"connector.class": SOURCE, "file": str(source), "topic": "lines"}),
            ("out", {"connector.class": SINK, "file": str(sink), "topics": "lines"}),
            ("rests", {"connector.class": SOURCE, "file": str(source), "topic": "lines"}),
        ):
            _create(theirs.url, name, config, "STOPPED" if name == "rests" else "RUNNING")
        _await(lambda: _states(theirs.url), {"in": running, "out": running, "rests": ["STOPPED"]})
        _await(lambda: _lines(sink), ["one", "two"])
        _await(lambda: sum(each["offset"]["kafka_offset"] for each in _offsets(theirs.url)["out"]), 2)  # type: ignore[index]
        _await(lambda: [each["offset"] for each in _offsets(theirs.url)["in"]], [{"position": 8}])
    worker = tmp_path / "worker.properties"
    worker.write_text(f"key.converter={STRING}\nvalue.converter={STRING}\n")
    with ConnectProcess(tmp_path / "ours", broker.bootstrap_servers, "--config", str(worker)) as ours:
        assert sorted(ours.client.get("/connectors").json()) == ["in", "out", "rests"]
        assert ours.states("rests") == ["STOPPED"]
        with source.open("a") as file:  # a file that is written anew is empty for a moment, and may be read then
            file.write("three\n")
        for name in ("in", "out"):
            ours.await_states(name, *running)
        _await(lambda: _lines(sink), ["one", "three", "two"])
        _await(lambda: [each["offset"] for each in _offsets(ours.url)["in"]], [{"position": 14}])
        _await(lambda: ours.client.get("/connectors/out/topics").json()["out"]["topics"], ["lines"])
        _await(lambda: _has_kept(broker, position=14, count=3), True)
    source.write_text("one\ntwo\nthree\nfour\n")
    with KafkaConnect(broker.bootstrap_servers) as theirs:
        _await(lambda: _states(theirs.url), {"in": running, "out": running, "rests": ["STOPPED"]})
        _await(lambda: _lines(sink), ["four", "one", "three", "two"])
        _await(lambda: [each["offset"] for each in _offsets(theirs.url)["in"]], [{"position": 19}])
