"""A disk that is full under the checkpoints of a flow."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.waiting import wait_until

import tailrace
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.topic_check import create_sinks
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FLOW = """\
name: copied
source: {{connector: topic, name: {source}}}
sql: SELECT value FROM source
sink: {{connector: topic, name: {sink}, format: raw}}
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"a disk of a megabyte cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a disk."""
    file = disk / "filler"
    room = os.statvfs(disk)
    file.write_bytes(bytes(room.f_bavail * room.f_frsize))
    return file


def test_a_flow_waits_for_room_and_goes_on(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path, small_disk: Path
) -> None:
    source, sink = new_topic(), new_topic()
    path = tmp_path / "pipe.yaml"
    path.write_text(FLOW.format(source=source, sink=sink))
    client = {"bootstrap.servers": broker.bootstrap_servers}
    pipeline = load_pipeline(path)
    plans = [plan_flow(flow, client, small_disk, tmp_path) for flow in pipeline.flows]
    said: list[str] = []
    running = PipelineRun(spark, pipeline, plans, say=said.append)
    running.build()
    create_sinks(plans, client)
    running.start()

    def copies() -> Counter[bytes]:
        table = tailrace.read_table(broker.bootstrap_servers, sink, isolation_level="read_committed")
        return Counter(table.column("value").to_pylist())

    try:
        broker.produce(source, [b"1"])
        # A batch whose end is not on the disk yet when that is full would come again.
        wait_until(lambda: running.check() and running.snapshot()[0].rows_in == 1)
        assert copies() == Counter([b"1"])
        filler = fill(small_disk)
        broker.produce(source, [b"2"])
        wait_until(
            lambda: running.check() and any("No space left on device" in line for line in said),
            why=lambda: f"{said}, {running.snapshot()}",
        )
        assert not any("\n" in line for line in said), said
        os.unlink(filler)
        broker.produce(source, [b"3"])
        wait_until(lambda: running.check() and len(copies()) == 3, why=lambda: f"{said}")
    finally:
        running.stop()
    assert copies() == Counter([b"1", b"2", b"3"])
