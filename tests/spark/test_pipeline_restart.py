"""A pipeline whose broker is killed and comes back: flows wait, go on from their checkpoints, and lose nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.waiting import wait_until

from tailrace.cli.demo.check import read_parquet
from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.topic_check import create_sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# Sources give up soon here. By default they wait for half a minute, and outlast most restarts of a broker.
FLOWS = """
from tailrace.pipeline import files, flow, topic

numbers = topic("numbers", schema="n int", options={"kafka.request.timeout.ms": 1000, "fetchOffset.numRetries": 1})

@flow(source=numbers, sink=topic("copies"))
def copied(rows):
    return rows

@flow(source=numbers, sink=files("files"))
def stored(rows):
    return rows
"""


class BrokerProcess:
    """A broker that can be killed, and started again on its port."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tailrace.cli.main", "start", "--data", str(self._data)]
        self._process = subprocess.Popen(
            [*command, "--listen", self.address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert " ready on " in ready
        self.address = ready.rpartition(" ")[2].strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def send(address: str, numbers: range) -> None:
    with Producer(address) as producer:
        for number in numbers:
            producer.send("numbers", json.dumps({"n": number}).encode())


def copies(address: str) -> Counter[int]:
    rows = read_table(address, "copies", columns=["value"], isolation_level="read_committed")
    return Counter(json.loads(value)["n"] for value in rows.column("value").to_pylist())


def start(spark: SparkSession, path: Path, address: str, say: Callable[[str], None]) -> PipelineRun:
    pipeline = load_pipeline(path)
    client = {"bootstrap.servers": address}
    plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
    running = PipelineRun(spark, pipeline, plans, say=say)
    running.build()
    create_sinks(plans, client)
    running.start()
    return running


def test_flows_outlive_their_broker(spark: SparkSession, tmp_path: Path) -> None:
    """One flow that lost its broker ended the whole pipeline, and nobody started it again."""
    broker = BrokerProcess(tmp_path / "data")
    said: list[str] = []
    path = tmp_path / "pipe.py"
    path.write_text(FLOWS)
    try:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tailrace.cli.main",
                "topic",
                "create",
                "numbers",
                "--bootstrap-server",
                broker.address,
            ],
            check=True,
            capture_output=True,
        )
        send(broker.address, range(100))
        running = start(spark, path, broker.address, said.append)
        try:
            # A task that is reading waits two minutes for a lost broker, so both flows must have read before.
            wait_until(
                lambda: (
                    running.check()
                    and len(copies(broker.address)) == 100
                    and all(tally.rows_in >= 100 for tally in running.snapshot())
                ),
                300,
            )
            broker.kill()
            wait_until(
                lambda: running.check() and {line.split()[1] for line in said} == {"copied", "stored"},
                300,
                lambda: f"{said}",
            )
            broker.start()
            send(broker.address, range(100, 200))

            def has_recovered(flow: str) -> bool:
                return any(line.startswith(f"flow {flow} recovered after ") for line in said)

            def is_done() -> bool:
                return running.check() and all(tally.rows_in >= 200 for tally in running.snapshot())

            wait_until(is_done, 300, lambda: f"{said}")
            # Spark may report the only batch before it has returned the query; then the next report is that it is idle.
            wait_until(lambda: running.check() and has_recovered("copied"), 300, lambda: f"{said}")
        finally:
            running.stop()
        assert copies(broker.address) == Counter(range(200))
        assert sorted(read_parquet(tmp_path / "files")[1].column("n").to_pylist()) == list(range(200))
        assert {tally.state for tally in running.snapshot()} == {"stopped"}
    finally:
        broker.kill()
