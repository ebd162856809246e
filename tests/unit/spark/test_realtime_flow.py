"""Flows with latency="realtime": what they declare, and what is refused by name."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import Delivery, PipelineError, files, flow, topic
from tailrace.spark.connector.topic.realtime import _known, require_connector
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import plan_of
from tailrace.spark.pipeline.realtime import check_cores
from tailrace.spark.pipeline.restart import can_pass
from tailrace.spark.pipeline.state_store import StateStore

IN, OUT = topic("a", schema="x int"), topic("b")


def one(rows: Any) -> Any:
    return rows


def test_a_realtime_flow_writes_updates_at_least_once(tmp_path: Path) -> None:
    declared = flow(source=IN, sink=OUT, latency="realtime", every="1 minute")(one)
    assert (declared.mode, declared.delivery, declared.state) == ("update", Delivery.AT_LEAST_ONCE, StateStore.DISK)
    assert plan_of(declared, {"bootstrap.servers": "x:1"}, tmp_path, tmp_path).place.is_realtime
    other = flow(source=IN, sink=OUT)(one)
    assert (other.mode, other.delivery, other.state) == ("append", Delivery.EXACTLY_ONCE, None)
    assert not plan_of(other, {"bootstrap.servers": "x:1"}, tmp_path, tmp_path).place.is_realtime


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latency": "fast"}, "latency='fast' is not \"realtime\"; leave it out for micro-batches"),
        ({"source": files("in")}, 'latency="realtime" reads and writes only topics, not parquet files in'),
        ({"sink": files("out")}, 'latency="realtime" reads and writes only topics, not parquet files out'),
        (
            {"source": topic("a", value="avro", registry="http://localhost:1")},
            'latency="realtime": topic a: values with schemas of a registry need a Python function, which it '
            "cannot run",
        ),
        (
            {"errors": {"to": "dead"}},
            'latency="realtime": dead letters are written by a Python function, which it cannot run; use errors="stop" '
            'or "skip"',
        ),
        (
            {"mode": "append"},
            'latency="realtime" needs mode="update", not "append": real-time mode has no other output mode',
        ),
        (
            {"delivery": "exactly-once"},
            'latency="realtime" needs delivery="at-least-once", not "exactly-once": records are written as they '
            "arrive, before the batch is finished",
        ),
        (
            {"state": "memory"},
            'latency="realtime" needs state="disk", not "memory": real-time mode keeps state with RocksDB',
        ),
        ({"every": "500 milliseconds"}, 'latency="realtime": every="500 milliseconds" is less than 5 seconds'),
        ({"every": "4 seconds"}, 'latency="realtime": every="4 seconds" is less than 5 seconds'),
    ],
)
def test_what_realtime_mode_cannot_do_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        flow(**{"source": IN, "sink": OUT, "latency": "realtime", **given})(one)
    assert str(refused.value) == f"flow one: {message}"


def test_yaml_has_the_latency(tmp_path: Path) -> None:
    path = tmp_path / "fast.yaml"
    path.write_text(
        "name: fast\nlatency: realtime\nsource: {connector: topic, name: a, schema: x int}\n"
        "sink: {connector: topic, name: b}\n"
    )
    (declared,) = load_pipeline(path).flows
    assert declared.is_realtime
    path.write_text(path.read_text() + "mode: complete\n")
    with pytest.raises(PipelineError, match=r'fast\.yaml:2: flow fast: latency="realtime" needs mode="update"'):
        load_pipeline(path)


def test_every_partition_needs_a_core() -> None:
    check_cores(3, {"one": 3}, has_other_flows=False)
    check_cores(2, {}, has_other_flows=True)
    with pytest.raises(PipelineError) as refused:
        check_cores(3, {"one": 3}, has_other_flows=True)
    assert str(refused.value) == (
        'latency="realtime" needs a core of Spark for each partition that is read, which is 4 with all flows, and '
        "Spark has 3; use --master 'local[4]' or more"
    )


def test_errors_of_the_java_client_can_pass() -> None:
    lost = (
        "Job aborted: org.apache.kafka.common.errors.TimeoutException: Topic b not present in metadata after 60000 ms."
    )
    assert can_pass(RuntimeError(lost))
    assert not can_pass(RuntimeError("org.apache.kafka.common.errors.TopicAuthorizationException: not b"))


def test_a_class_path_without_the_connector_is_told_in_one_line() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    class Jvm:
        def __getattr__(self, name: str) -> Any:
            return self

        def classForName(self, *_: Any) -> None:
            raise Py4JError("java.lang.ClassNotFoundException")

    class Session:
        _jvm, version = Jvm(), "4.3.0"

    with pytest.raises(PipelineError) as refused:
        require_connector(Session())  # type: ignore[arg-type]
    assert str(refused.value) == (
        'latency="realtime" needs Spark\'s Kafka connector; start with --conf '
        "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0, or the newest version before it"
    )


@pytest.mark.parametrize("name", ["sasl.username", "ssl.ca.location"])
def test_names_that_only_librdkafka_has_are_refused(name: str) -> None:
    with pytest.raises(PipelineError, match=rf"has no config {name}; set s"):
        _known({"kafka.bootstrap.servers": "a:1", f"kafka.{name}": "x"})
