"""Clients of Kafka Connect that others wrote, with our Connect service.

Each comes from PyPI into a folder of its own (`make fetch`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.cache import Unavailable
from tests.clients.program import KAFKA_CONNECT_API, KAFKA_CONNECT_PY, python_package
from tests.unit.connect.serving import served

from tailrace.connect.service import ServiceOptions
from tailrace.testing import Broker

pytestmark = pytest.mark.slow

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CONFIG = {"connector.class": SOURCE, "file": "/data/lines.txt", "topic": "lines"}

API_STORY = """
import json, sys, time
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector
url, config = sys.argv[1], json.loads(sys.argv[2])
cluster = Cluster(Api(url=url))
connector = Connector(cluster, "lines")
found = [list(cluster.connectors)]
connector.config = config
def settle(state):
    while connector.state != state or [task.state for task in connector.tasks] != [state]:
        time.sleep(0.05)
    found.append(state)
settle("RUNNING")
found += [list(cluster.connectors), connector.exists(), connector.connector_class, connector.config["topic"]]
connector.pause()
settle("PAUSED")
connector.resume()
settle("RUNNING")
connector.restart_all_tasks()
settle("RUNNING")
connector.restart()
settle("RUNNING")
cluster.root_logger = "INFO"
found += [cluster.root_logger["level"], bool(cluster.kafka_cluster), "INFO" in str(cluster.loggers)]
connector.delete()
found.append(list(cluster.connectors))
print(json.dumps(found))
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with Broker() as broker:
        with served(ServiceOptions({"bootstrap.servers": broker.bootstrap_servers}, tmp_path)) as running:
            yield running


def run(requirement: str, *arguments: str) -> str:
    """Run Python with a package, and return its output."""
    try:
        folder = python_package(requirement)
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        [sys.executable, *arguments], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_line_of_kafka_connect_py(url: str) -> None:
    def kc(*arguments: str) -> Any:
        output = run(KAFKA_CONNECT_PY, "-c", "from kafka_connect.cli import cli; cli()", "--url", url, *arguments)
        return json.loads(output) if output.strip() else None

    def settle(state: str) -> None:
        deadline = time.monotonic() + 180
        while [each["state"] for each in kc("status", "lines")["tasks"]] != [state]:
            assert time.monotonic() < deadline

    assert set(kc("info")) == {"version", "commit", "kafka_cluster_id"}
    assert kc("list") == []
    created = kc("create", "--config-data", json.dumps({"name": "lines", "config": CONFIG}))
    assert created["config"]["topic"] == "lines"
    settle("RUNNING")
    assert kc("list", "--expand", "status")["lines"]["status"]["type"] == "source"
    assert kc("config", "lines")["connector.class"] == SOURCE
    assert kc("update", "lines", "--config-data", json.dumps({**CONFIG, "topic": "other"}))["name"] == "lines"
    kc("pause", "lines")
    settle("PAUSED")
    kc("resume", "lines")
    settle("RUNNING")
    plugins = kc("list-plugins")
    assert SOURCE in [plugin["class"] for plugin in plugins]
    kc("delete", "lines")
    assert kc("list") == []


def test_the_library_kafka_connect_api(url: str) -> None:
    found = json.loads(run(KAFKA_CONNECT_API, "-c", API_STORY, url, json.dumps(CONFIG)))
    assert found == [
        *([], "RUNNING", ["lines"], True, SOURCE, "lines"),
        *("PAUSED", "RUNNING", "RUNNING", "RUNNING", "INFO", True, True, []),
    ]
