"""Spark's own Kafka connector against a Runnel broker, next to ours: equal rows, in batches and in streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import require_spark

from runnel.testing import Broker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(420)]

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a session with both formats found."""
    require_spark()
    import pyspark
    from bench.cache import Unavailable
    from bench.spark_connector import connector_jars

    try:
        jars = connector_jars(pyspark.__version__)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Broker({"auto.create.topics.enable": False}) as broker:
        for topic in ("from_kafka", "from_runnel", "stream_from_kafka", "stream_from_runnel"):
            broker.create_topic(topic, 3)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.spark.both_formats"),
                *(broker.bootstrap_servers, ",".join(map(str, jars)), str(tmp_path_factory.mktemp("checkpoints"))),
            ],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize(
    ("comparison", "row_count"),
    [
        ("written by kafka", 500),
        ("written by runnel", 500),
        ("streamed by kafka", 500),
        ("streamed by runnel", 500),
        ("a pattern", 1000),
        ("from a time on", 500),
    ],
)
def test_both_formats_read_the_same_rows(found: dict[str, Any], comparison: str, row_count: int) -> None:
    assert found[comparison] == {"rows": row_count, "equal": True}


@pytest.mark.parametrize("comparison", ["offsets", "one partition"])
def test_both_formats_read_the_same_part(found: dict[str, Any], comparison: str) -> None:
    assert found[comparison]["equal"]
    assert 0 < found[comparison]["rows"] < 500


def test_both_formats_write_the_same_records(found: dict[str, Any]) -> None:
    assert found["both sinks wrote the same"]
    assert found["both streams wrote the same"]
