"""Spark's Declarative Pipelines with topics as source and as sink."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.conftest import require_spark

from tailrace.testing import Broker

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]

TRANSFORMATION = """
from pyspark import pipelines as dp

SERVERS = "{servers}"


def views():
    reader = spark.readStream.format("tailrace").option("kafka.bootstrap.servers", SERVERS)
    return reader.option("subscribe", "{source}").option("startingOffsets", "earliest").load()


dp.create_sink("doubled", "tailrace", {{"kafka.bootstrap.servers": SERVERS, "topic": "{sink}"}})


@dp.append_flow(target="doubled")
def double():
    return views().selectExpr("key", "cast(cast(cast(value AS STRING) AS INT) * 2 AS STRING) AS value")
"""


def example(name: str, folder: Path, broker: Broker) -> str:
    """Return a file of the example in the guide, for the broker of the test."""
    guide = (CHECKOUT / "docs" / "PIPELINES.md").read_text()
    found = re.search(rf"```\w+\n(# {re.escape(name)}\n.*?)```", guide, re.DOTALL)
    assert found is not None
    return found[1].replace("localhost:9092", broker.bootstrap_servers).replace("/var/lib/orders", str(folder))


def test_topics_are_sources_and_sinks(broker: Broker, new_topic: Callable[..., str], tmp_path: Path) -> None:
    require_spark()
    for needed in ("grpc", "grpc_status", "yaml", "zstandard"):
        pytest.importorskip(needed, reason=f"{needed} is not installed, which Spark's pipelines need")
    source, sink = new_topic(2), new_topic()
    broker.produce(source, [(b"%d" % number, b"%d" % number) for number in range(50)])
    for topic in ("orders", "large_orders"):
        broker.create_topic(topic)
    broker.produce("orders", [(b"ann", b"7"), (b"bob", b"20000"), (b"ann", b"10001")])
    (tmp_path / "transformations").mkdir()
    for name in ("spark-pipeline.yml", "transformations/orders.py"):
        (tmp_path / name).write_text(example(name, tmp_path, broker))
    text = TRANSFORMATION.format(servers=broker.bootstrap_servers, source=source, sink=sink)
    (tmp_path / "transformations" / "topics.py").write_text(text)
    done = run_pipeline(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(int(record.value or b"") for record in broker.consume(sink)) == [2 * number for number in range(50)]
    large = sorted((record.key, record.value) for record in broker.consume("large_orders"))
    assert large == [(b"ann", b"10001"), (b"bob", b"20000")]


def run_pipeline(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `spark-pipelines run` does, with the Java that a session would find."""
    import pyspark

    from tailrace.spark.java import find_java_home

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(CHECKOUT / "src"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.sql.shuffle.partitions": "2"}
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return subprocess.run(
        [home / "bin" / "spark-pipelines", "run", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
