"""The same pipeline files on a standalone cluster, whose executors have Spark's own needs and no Tailrace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.spark_kill_process import StandaloneSpark

import tailrace
from tailrace import read_table
from tailrace.testing import Broker

OF_SPARK = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "pandas.libs", "pyarrow.libs", "dateutil")
OF_PANDAS = ("pytz", "tzdata", "six.py", "packaging")
TIMEOUT_S = 800

FILE = """
from pyspark.sql.functions import udf
from tailrace.pipeline import flow, topic

names = topic("names", schema="name string, n int")

@udf("string")
def shout(text):
    return text.upper()

@flow(source=names, sink=topic("loud", key="name"))
def loud(rows):
    return rows.select(shout("name").alias("name"), "n")

@flow(source=names, sink=topic("sums", key="name"), mode="complete")
def sums(rows):
    return rows.groupBy("name").agg({"n": "sum"}).withColumnRenamed("sum(n)", "total")
"""


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python that has what Spark needs, and nothing of Tailrace."""
    import pyspark

    installed, packages = Path(pyspark.__file__).parents[1], tmp_path / "packages"
    packages.mkdir()
    for name in (*OF_SPARK, *OF_PANDAS):
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneSpark]:
    found = StandaloneSpark(tmp_path, {"PYTHONPATH": ""})
    try:
        found.start()
        yield found
    finally:
        found.end()


@pytest.mark.slow
def test_a_file_runs_on_a_cluster_without_tailrace(
    tailrace_broker: Broker, cluster: StandaloneSpark, bare_python: Path, tmp_path: Path
) -> None:
    servers = tailrace_broker.bootstrap_servers
    with tailrace.Producer(servers) as producer:
        for number in range(10):
            producer.send("names", json.dumps({"name": "ab"[number % 2], "n": number}).encode())
    path = tmp_path / "pipe.py"
    path.write_text(FILE)
    run_on(cluster.master, path, tailrace_broker, bare_python)
    loud, sums = (
        [json.loads(row["value"]) for row in read_table(servers, topic, columns=["value"]).to_pylist()]
        for topic in ("loud", "sums")
    )
    assert sorted((row["name"], row["n"]) for row in loud) == sorted(("AB"[n % 2], n) for n in range(10))
    assert sorted((row["name"], row["total"]) for row in sums) == [("a", 20), ("b", 25)]


def run_on(master: str, path: Path, broker: Broker, python: Path) -> None:
    environment = {
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "tailrace", "pipeline", "run", str(path), "--once", "--master", master]
    command += ["--conf", "spark.sql.shuffle.partitions=2"]
    done = subprocess.run(
        [*command, "--bootstrap-server", broker.bootstrap_servers],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
