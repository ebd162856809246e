"""Declaring flows: what is taken, what is refused, and what a file may look like."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runnel.pipeline import Flow, PipelineError, Topic, flow, parquet, topic
from runnel.spark.pipeline.load import NeedsSession, load_pipeline

CHECKOUT = Path(__file__).parents[3]


def one(frame: Any) -> Any:
    return frame


def two(left: Any, right: Any) -> Any:
    return left, right


def test_a_function_becomes_a_flow_that_can_still_be_called() -> None:
    declared = flow(source=topic("a", schema="x int"), sink=topic("b"))(one)
    assert isinstance(declared, Flow)
    assert (declared.name, declared.mode, declared.every) == ("one", "append", None)
    assert declared("frame") == "frame"  # type: ignore[arg-type]
    joined = flow(source=[topic("a"), topic("b")], sink=parquet("out"), every="5 seconds")(two)
    assert [source.names for source in joined.sources] == [("a",), ("b",)]


WRONG_FLOWS: list[tuple[dict[str, Any], Callable[..., Any], str]] = [
    ({"sink": topic("b")}, one, "flow one: source is missing; a flow reads from topic(…)"),
    ({"source": topic("a")}, one, "flow one: sink is missing; a flow writes to topic(…) or parquet(…)"),
    ({"source": [], "sink": topic("b")}, one, "flow one: source has no topics"),
    ({"source": "a", "sink": topic("b")}, one, "flow one: a source is topic(…), not 'a'"),
    (
        {"source": parquet("a"), "sink": topic("b")},
        one,
        "flow one: a source is topic(…), not parquet(…), which is for sinks",
    ),
    ({"source": topic("a"), "sink": 7}, one, "flow one: a sink is topic(…) or parquet(…), not int"),
    (
        {"source": topic("a"), "sink": topic("b", "c")},
        one,
        "flow one: a flow writes to one topic, not to 2: declare a flow for each",
    ),
    ({"source": topic("a", key="k"), "sink": topic("b")}, one, "flow one: topic a is a source, and key= is for a sink"),
    (
        {"source": topic("a"), "sink": topic("b", schema="x int")},
        one,
        "flow one: topic b is a sink, and schema= is for a source",
    ),
    (
        {"source": topic("a", malformed="drop"), "sink": topic("b")},
        one,
        "flow one: topic a has no schema, so nothing of it can be malformed",
    ),
    (
        {"source": topic("a"), "sink": topic("b", key="k", format="raw")},
        one,
        "flow one: topic b is written raw, and takes its keys from the column key; leave out key=",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "mode": "upsert"},
        one,
        "flow one: mode='upsert' is none of append, update, complete",
    ),
    (
        {"source": topic("a"), "sink": parquet("b"), "mode": "update"},
        one,
        'flow one: Parquet files are only added to, so mode="update" cannot be: use "append" or a topic',
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "every": "soon"},
        one,
        "flow one: every='soon' is no time such as \"5 seconds\"",
    ),
    (
        {"source": topic("a"), "sink": topic("b")},
        two,
        "flow two: the function must take 1 DataFrame, one for each source",
    ),
    (
        {"source": [topic("a"), topic("b")], "sink": topic("c")},
        one,
        "flow one: the function must take 2 DataFrames, one for each source",
    ),
]


@pytest.mark.parametrize(("arguments", "function", "message"), WRONG_FLOWS)
def test_a_wrong_flow_is_refused_with_its_name(
    arguments: dict[str, Any], function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        flow(**arguments)(function)
    assert str(refused.value) == message


def test_a_decorator_without_arguments_says_what_it_needs() -> None:
    with pytest.raises(PipelineError, match="needs its arguments by name"):
        flow(one)


WRONG_TOPICS: list[tuple[Callable[[], object], str]] = [
    (topic, "needs the name of a topic"),
    (lambda: topic("a,b"), "'a,b' is not the name of a topic"),
    (lambda: topic("a", schema=" "), "is no schema"),
    (lambda: topic("a", schema=5), "is no schema"),
    (lambda: topic("a", include=("keys",)), "a record has no column 'keys'"),
    (lambda: topic("a", malformed="skip"), "malformed='skip' is none of fail, drop, null"),
    (lambda: topic("a", format="avro"), "format='avro' is none of json, raw"),
    (lambda: topic("a", start="now"), 'start=\'now\' is neither "earliest" nor "latest"'),
    (lambda: topic("a", partitions=0), "partitions=0 is not a number from 1 on"),
    (lambda: topic("a", partitions=True), "partitions=True is not a number"),
    (lambda: topic("a", options={"subscribe": "b"}), "option subscribe is set by the pipeline; name the topics"),
    (lambda: topic("a", options={"startingOffsets": "latest"}), "use start="),
    (lambda: parquet(" "), "needs the path of a folder"),
    (lambda: parquet("a", options={"checkpointLocation": "b"}), "use --checkpoint"),
]


@pytest.mark.parametrize(("declare", "message"), WRONG_TOPICS)
def test_a_wrong_endpoint_is_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        declare()
    assert message in str(refused.value)


def test_an_endpoint_keeps_what_it_was_given() -> None:
    found = topic("a", include="key", start='{"a":{"0":5}}', options={"failOnDataLoss": False, "minPartitions": 4})
    assert found == Topic(
        ("a",), include=("key",), start='{"a":{"0":5}}', options={"failOnDataLoss": "false", "minPartitions": "4"}
    )
    assert parquet(Path("out"), partition_by="day").partition_by == ("day",)


# --- files

HEAD = "from runnel.pipeline import flow, parquet, topic\n"
GOOD = HEAD + "@flow(source=topic('a'), sink=topic('b'))\ndef {0}(frame):\n    return frame\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "p.py"
    path.write_text(text)
    return path


def test_the_flows_of_a_file_come_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_p.py").write_text(GOOD.format("third"))
    text = GOOD.format("second") + GOOD.format("first") + "import neighbour_of_p\n"
    pipeline = load_pipeline(write(tmp_path, text))
    assert [flow.name for flow in pipeline.flows] == ["second", "first", "third"]
    assert pipeline.path == tmp_path / "p.py"


WRONG_FILES = [
    ("", "p.py: there are no flows in it; declare one with @flow(source=…, sink=…)"),
    ("x = 1\ny = z\n", "p.py:2: NameError: name 'z' is not defined"),
    ("import no_such_module_anywhere\n", "p.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    ("x = 1\ndef f(:\n", "p.py:2: SyntaxError: invalid syntax"),
    (HEAD + "topic()\n", "p.py:2: topic() needs the name of a topic"),
    (HEAD + "@flow(source=topic('a'))\ndef f(x): return x\n", "p.py:2: flow f: sink is missing"),
    (GOOD.format("f") + GOOD.format("f"), "flow f: line 2 has a flow of this name already"),
    (HEAD + "raise SystemExit(3)\n", "p.py: the file ends the program instead of declaring flows"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FILES)
def test_a_wrong_file_is_one_line_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        load_pipeline(write(tmp_path, text))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no such file"):
        load_pipeline(tmp_path / "none.py")


def test_a_file_that_uses_spark_while_it_is_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(NeedsSession, match=r"p\.py:1"):
        load_pipeline(write(tmp_path, "raise RuntimeError('[SESSION_OR_CONTEXT_NOT_EXISTS] …')\n"))


@pytest.mark.parametrize(
    ("page", "names"), [("README.md", ["page_counts"]), ("docs/PIPELINES.md", ["page_counts", "views"])]
)
def test_the_examples_of_the_pages_declare_their_flows(tmp_path: Path, page: str, names: list[str]) -> None:
    pytest.importorskip("pyspark", reason="the examples import pyspark")
    blocks = re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text(), re.DOTALL)
    pipeline = load_pipeline(write(tmp_path, next(block for block in blocks if "@flow" in block)))
    assert [flow.name for flow in pipeline.flows] == names


def test_the_example_declares_its_flows() -> None:
    pytest.importorskip("pyspark", reason="the example imports pyspark")
    pipeline = load_pipeline(CHECKOUT / "examples" / "website.py")
    assert [flow.name for flow in pipeline.flows] == ["page_counts", "sessions", "order_searches", "activity"]
