"""What Spark is told about a flow."""

from pathlib import Path
from typing import Any, cast

import pytest

from tailrace.pipeline import Flow, Topic, files, flow, topic
from tailrace.spark.connector.topic.topic import COMMITTED
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import FlowPlan, checkpoints_of, plan_flow

CLIENT = {"bootstrap.servers": "h:1", "client.id": "me"}
KAFKA = {"kafka.bootstrap.servers": "h:1", "kafka.client.id": "me"}


def declared(source: Any, sink: Any, **options: Any) -> Flow:
    @flow(source=source, sink=sink, **options)
    def named(*frames: Any) -> Any:
        return frames

    return named


def source_options(plan: FlowPlan) -> tuple[dict[str, str], ...]:
    return tuple(source.source_options(plan.place) for source in cast("tuple[Topic, ...]", plan.flow.sources))


def sink_options(plan: FlowPlan) -> dict[str, str]:
    return cast("Topic", plan.flow.sink).sink_options(plan.place)


def test_only_what_is_decoded_is_read() -> None:
    source = topic("a", schema="x int", include=("timestamp", "value"), options={"maxOffsetsPerTrigger": 10})
    plan = plan_flow(declared([source, topic("b", "c", start="latest")], topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert source_options(plan) == (
        KAFKA
        | COMMITTED
        | {
            "subscribe": "a",
            "startingOffsets": "earliest",
            "columns": "value,topic,partition,offset,timestamp",
            "maxOffsetsPerTrigger": "10",
        },
        KAFKA | COMMITTED | {"subscribe": "b,c", "startingOffsets": "latest"},
    )
    assert sink_options(plan) == KAFKA | {"topic": "d", "delivery": "exactly-once"}
    assert plan.checkpoint == Path("/c/named")
    assert plan.topics_read == {("h:1", "a"), ("h:1", "b"), ("h:1", "c")}
    assert plan.topics_written == (("h:1", "d"),)


def test_rows_name_one_of_several_topics() -> None:
    plan = plan_flow(declared(topic("a"), topic("d", "e", format="raw")), CLIENT, Path("/c"), Path("/o"))
    assert sink_options(plan) == KAFKA | {"delivery": "exactly-once"}
    assert plan.topics_written == (("h:1", "d"), ("h:1", "e"))


def test_delivery_and_isolation_can_be_chosen() -> None:
    source = topic("a", options={"kafka.isolation.level": "read_uncommitted"})
    plan = plan_flow(declared(source, topic("d"), delivery="at-least-once"), CLIENT, Path("/c"), Path("/o"))
    assert source_options(plan)[0]["kafka.isolation.level"] == "read_uncommitted"
    assert sink_options(plan)["delivery"] == "at-least-once"


def test_a_topic_of_other_brokers_names_them() -> None:
    source = topic("a", options={"kafka.bootstrap.servers": "elsewhere:2"})
    plan = plan_flow(declared(source, topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert plan.topics_read == {("elsewhere:2", "a")}
    assert plan.topics_written == (("h:1", "d"),)


def test_paths_of_files_begin_at_the_output_folder() -> None:
    def path(text: str) -> str:
        plan = plan_flow(declared(topic("a"), files(text)), CLIENT, Path("/c"), Path("/o"))
        assert plan.topics_written == ()
        return sink_options(plan)["path"]

    assert [path("x/y"), path("/x"), path("s3a://b/x")] == ["/o/x/y", "/x", "s3a://b/x"]


def test_raw_columns_can_be_chosen_too() -> None:
    plan = plan_flow(declared(topic("a", include=("key", "offset")), topic("d")), CLIENT, Path("/c"), Path("/o"))
    assert source_options(plan)[0]["columns"] == "key,offset"


def test_checkpoints_are_beside_the_file() -> None:
    assert checkpoints_of(Path("/p/site.py")) == Path("/p/.tailrace/checkpoints/site")


@pytest.mark.parametrize(
    ("errors", "malformed", "columns"),
    [
        ("stop", None, "value,topic,partition,offset"),
        ("skip", None, "value"),
        ({"to": "dead"}, None, "value,key,headers,topic,partition,offset,timestamp"),
        ({"to": "dead"}, "null", "value,topic,partition,offset"),
        ("skip", "null", "value"),
    ],
)
def test_what_errors_need_of_a_record_is_read(errors: Any, malformed: str | None, columns: str) -> None:
    source = topic("a", schema="x int", malformed=malformed)
    plan = plan_flow(declared(source, topic("d"), errors=errors), CLIENT, Path("/c"), Path("/o"))
    assert source_options(plan)[0]["columns"] == columns
    assert plan.dead_letter_topic == (None if isinstance(errors, str) else ("h:1", "dead"))


@pytest.mark.parametrize(
    ("name", "message"),
    [("a", "the flow reads topic a, and would read its own dead"), ("d", "the flow writes its rows to topic d")],
)
def test_dead_letters_have_a_topic_of_their_own(name: str, message: str) -> None:
    with pytest.raises(FlowError, match=message):
        plan_flow(declared(topic("a"), topic("d"), errors={"to": name}), CLIENT, Path("/c"), Path("/o"))
    elsewhere = topic("a", options={"kafka.bootstrap.servers": "other:1"})
    plan_flow(declared(elsewhere, topic("d"), errors={"to": "a"}), CLIENT, Path("/c"), Path("/o"))
