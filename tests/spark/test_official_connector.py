"""Spark's own Kafka connector against a Tailrace broker, next to ours: equal rows, in batches and in streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.both_formats import TOPICS, compare_formats

from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, kafka_jars: list[Path] | str, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What a session with both formats found."""
    if isinstance(kafka_jars, str):
        pytest.skip(kafka_jars)
    for topic in TOPICS:
        broker.create_topic(topic, 3)
    return compare_formats(spark, broker.bootstrap_servers, str(tmp_path_factory.mktemp("checkpoints")))


@pytest.mark.parametrize(
    ("comparison", "row_count"),
    [
        ("written by kafka", 500),
        ("written by tailrace", 500),
        ("streamed by kafka", 500),
        ("streamed by tailrace", 500),
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
