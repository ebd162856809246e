"""What Spark is told about a flow."""

from pathlib import Path
from typing import Any

from runnel.pipeline import Flow, flow, parquet, topic
from runnel.spark.pipeline.plan import COMMITTED, checkpoints_of, plan_flow

CLIENT = {"bootstrap.servers": "h:1", "client.id": "me"}
KAFKA = {"kafka.bootstrap.servers": "h:1", "kafka.client.id": "me"}


def declared(source: Any, sink: Any) -> Flow:
    @flow(source=source, sink=sink)
    def named(*frames: Any) -> Any:
        return frames

    return named


def test_only_what_is_decoded_is_read() -> None:
    source = topic("a", schema="x int", include=("timestamp", "value"), options={"maxOffsetsPerTrigger": 10})
    plan = plan_flow(declared([source, topic("b", "c", start="latest")], topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert plan.source_options == (
        KAFKA
        | COMMITTED
        | {
            "subscribe": "a",
            "startingOffsets": "earliest",
            "columns": "value,timestamp",
            "maxOffsetsPerTrigger": "10",
        },
        KAFKA | COMMITTED | {"subscribe": "b,c", "startingOffsets": "latest"},
    )
    assert plan.sink_options == KAFKA | {"topic": "d", "delivery": "exactly-once"}
    assert plan.checkpoint == Path("/c/named")
    assert plan.topics_read == {("h:1", "a"), ("h:1", "b"), ("h:1", "c")}
    assert plan.topic_written == ("h:1", "d")


def test_delivery_and_isolation_can_be_chosen() -> None:
    source = topic("a", options={"kafka.isolation.level": "read_uncommitted"})
    plan = plan_flow(
        declared(source, topic("d", options={"delivery": "at-least-once"})), CLIENT, Path("/c"), Path("/o")
    )
    assert plan.source_options[0]["kafka.isolation.level"] == "read_uncommitted"
    assert plan.sink_options["delivery"] == "at-least-once"


def test_a_topic_of_other_brokers_names_them() -> None:
    source = topic("a", options={"kafka.bootstrap.servers": "elsewhere:2"})
    plan = plan_flow(declared(source, topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert plan.topics_read == {("elsewhere:2", "a")}
    assert plan.topic_written == ("h:1", "d")


def test_paths_of_files_begin_at_the_output_folder() -> None:
    def path(text: str) -> str:
        plan = plan_flow(declared(topic("a"), parquet(text)), CLIENT, Path("/c"), Path("/o"))
        assert plan.topic_written is None
        return plan.sink_options["path"]

    assert [path("x/y"), path("/x"), path("s3a://b/x")] == ["/o/x/y", "/x", "s3a://b/x"]


def test_raw_columns_can_be_chosen_too() -> None:
    plan = plan_flow(declared(topic("a", include=("key", "offset")), topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert plan.source_options[0]["columns"] == "key,offset"


def test_checkpoints_are_beside_the_file() -> None:
    assert checkpoints_of(Path("/p/site.py")) == Path("/p/.runnel/checkpoints/site")
