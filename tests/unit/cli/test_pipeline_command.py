"""`tailrace pipeline run` as far as it goes without Spark: everything that can be wrong before that starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.client.admin.sync import Admin
from tailrace.protocol.errors import ApiError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Run = Callable[..., tuple[int, str, str]]

FILE = """
from tailrace.pipeline import flow, topic

@flow(source=topic("{0}"), sink=topic("{0}-out"))
def copy(records):
    return records
"""


def test_a_file_that_is_wrong_is_one_line_and_status_1(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("x = 1\nx.nothing\n")
    status, out, err = run("pipeline", "run", str(path))
    assert (status, out) == (1, "")
    assert err == "tailrace: p.py:2: AttributeError: 'int' object has no attribute 'nothing'\n"


def test_a_source_that_does_not_exist_is_named_with_its_flow(run: Run, tmp_path: Path, topic: str) -> None:
    path = tmp_path / "p.py"
    path.write_text(FILE.format(topic))
    status, _, err = run("pipeline", "run", str(path))
    assert (status, err) == (1, f"tailrace: flow copy: topic {topic} does not exist\n")


def test_brokers_that_are_not_there_are_told_before_spark_starts(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(FILE.format("any"))
    status, out, err = run("pipeline", "run", str(path), "--bootstrap-server", "127.0.0.1:1")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "127.0.0.1:1" in err


def test_a_sink_that_cannot_be_created_is_told_before_spark_starts(
    tailrace_broker: Broker, run: Run, tmp_path: Path, topic: str
) -> None:
    tailrace_broker.create_topic(topic)
    path = tmp_path / "p.py"
    path.write_text(FILE.format(topic).replace("-out", "/out"))
    status, out, err = run("pipeline", "run", str(path))
    assert (status, out) == (1, "")
    assert err.startswith(f"tailrace: flow copy: topic {topic}/out cannot be created: INVALID_TOPIC_EXCEPTION")


def test_a_wrong_duration_is_a_wrong_call(run: Run, tmp_path: Path) -> None:
    assert run("pipeline", "run", str(tmp_path / "p.py"), "--for", "soon")[0] == 2


def test_the_sinks_are_made_with_their_partitions(tailrace_broker: Broker, topic: str) -> None:
    from tailrace.pipeline import flow
    from tailrace.pipeline import topic as declare
    from tailrace.spark.pipeline.plan import plan_flow
    from tailrace.spark.pipeline.topic_check import check_topics, create_sinks

    tailrace_broker.create_topic(topic, 1)

    @flow(source=declare(topic), sink=declare(f"{topic}-out", partitions=4))
    def first(records: DataFrame) -> DataFrame:
        return records

    @flow(source=declare(f"{topic}-out"), sink=declare(topic))
    def second(records: DataFrame) -> DataFrame:
        return records

    client = {"bootstrap.servers": tailrace_broker.bootstrap_servers}
    plans = [plan_flow(one, client, Path("/c"), Path("/o")) for one in (first, second)]
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        check_topics(plans, client)
        assert isinstance(admin.describe_topics([f"{topic}-out"])[f"{topic}-out"], ApiError), "it is only checked"
        assert create_sinks(plans, client) == [f"{topic}-out"]
        assert create_sinks(plans, client) == []
        assert len(admin.describe_topics([f"{topic}-out"])[f"{topic}-out"].partitions) == 4  # type: ignore[union-attr]
