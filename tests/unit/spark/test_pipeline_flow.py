"""Declaring flows: what is taken, what is refused, and what a file may look like."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import Flow, PipelineError, Topic, files, flow, topic
from tailrace.spark.pipeline.load import NeedsSession, load_pipeline

CHECKOUT = Path(__file__).parents[3]


def one(frame: Any) -> Any:
    return frame


def two(left: Any, right: Any) -> Any:
    return left, right


def test_a_function_becomes_a_flow_that_can_still_be_called() -> None:
    declared = flow(source=topic("a", schema="x int"), sink=topic("b"))(one)
    assert isinstance(declared, Flow)
    assert (declared.name, declared.mode, declared.every) == ("one", "append", None)
    frame: Any = object()
    assert declared(frame) is frame
    joined = flow(source=[topic("a"), topic("b")], sink=files("out"), every="5 seconds")(two)
    assert [str(source) for source in joined.sources] == ["topic a", "topic b"]


WRONG_FLOWS: list[tuple[dict[str, Any], Callable[..., Any], str]] = [
    ({"sink": topic("b")}, one, "flow one: source is missing; a flow reads from a source such as topic(…)"),
    ({"source": topic("a")}, one, "flow one: sink is missing; a flow writes to a sink such as topic(…)"),
    ({"source": [], "sink": topic("b")}, one, "flow one: source is an empty list"),
    ({"source": "a", "sink": topic("b")}, one, "flow one: a source is topic(…) or another connector, not 'a'"),
    (
        {"source": files("a", format="csv"), "sink": topic("b")},
        one,
        "flow one: csv files a: csv files do not have the types of their columns; give schema=",
    ),
    (
        {"source": files("a", partition_by="day"), "sink": topic("b")},
        one,
        "flow one: parquet files a is a source, and partition_by= is for a sink",
    ),
    (
        {"source": files("a", malformed="null"), "sink": topic("b")},
        one,
        "flow one: parquet files a: malformed= is for rows of CSV and JSON files",
    ),
    (
        {"source": topic("a"), "sink": files("b", schema="a int")},
        one,
        "flow one: parquet files b is a sink, and schema= is for a source",
    ),
    (
        {"source": topic("a"), "sink": files("b"), "delivery": "at-least-once"},
        one,
        "flow one: delivery='at-least-once' is not possible with parquet files b; use exactly-once or at-most-once",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "delivery": "twice"},
        one,
        "flow one: delivery='twice' is not one of at-most-once, at-least-once, exactly-once",
    ),
    ({"source": topic("a"), "sink": 7}, one, "flow one: a sink is topic(…) or another connector, not int"),
    (
        {"source": topic("a"), "sink": topic("b", "c")},
        one,
        "flow one: a flow writes to one topic, not to 2: declare a flow for each, "
        'or write rows with a column topic and format="raw"',
    ),
    ({"source": topic("a", key="k"), "sink": topic("b")}, one, "flow one: topic a is a source, and key= is for a sink"),
    (
        {"source": topic("a"), "sink": topic("b", schema="x int")},
        one,
        "flow one: topic b is a sink, and schema= is for a source",
    ),
    (
        {"source": topic("a", malformed="null"), "sink": topic("b")},
        one,
        "flow one: topic a has no schema, so malformed= does not apply",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "errors": "drop"},
        one,
        'flow one: errors= is "stop", "skip", or a mapping such as {"to": "orders_errors"}, not \'drop\'',
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "errors": {"to": "a b"}},
        one,
        "flow one: errors=: 'a b' is not the name of a dead-letter topic: Topic name is invalid: only ASCII "
        "letters, digits, '.', '_' and '-' are allowed",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "expect": {"x": {"rule": "n > 0", "on_fail": "reject"}}},
        one,
        'flow one: expect=: x: on_fail="reject" needs errors={"to": TOPIC}; use "drop" or "fail"',
    ),
    (
        {"source": topic("a"), "sink": topic("b", key="k", format="raw")},
        one,
        "flow one: topic b is written raw, and takes its keys from the column key; leave out key=",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "mode": "upsert"},
        one,
        "flow one: mode='upsert' is not one of append, update, complete",
    ),
    (
        {"source": topic("a"), "sink": files("b"), "mode": "update"},
        one,
        "flow one: parquet files b takes no rows with mode='update'; it takes those of append",
    ),
    (
        {"source": topic("a"), "sink": topic("b"), "every": "soon"},
        one,
        "flow one: every='soon' is not a duration such as \"5 seconds\"",
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
    (lambda: topic("a", schema=" "), "is not a schema"),
    (lambda: topic("a", schema=5), "is not a schema"),
    (lambda: topic("a", include=("keys",)), "a record has no column 'keys'"),
    (lambda: topic("a", malformed="drop"), "malformed='drop' is not \"null\"; errors= of the flow"),
    (lambda: topic("a", format="avro"), "format='avro' is not one of json, raw"),
    (lambda: topic("a", start="now"), 'start=\'now\' is neither "earliest" nor "latest"'),
    (lambda: topic("a", partitions=0), "partitions=0 is not a positive number"),
    (lambda: topic("a", partitions=True), "partitions=True is not a positive number"),
    (lambda: topic("a", options={"subscribe": "b"}), "option subscribe is set by the pipeline; name the topics"),
    (lambda: topic("a", options={"startingOffsets": "latest"}), "use start="),
    (lambda: files(" "), "needs the path of a folder"),
    (lambda: files("a", format="xml"), "format='xml' is not one of avro, csv, json, orc, parquet, text"),
    (lambda: files("a", options={"checkpointLocation": "b"}), "use --checkpoint"),
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
    assert files(Path("out"), partition_by="day").partition_by == ("day",)


# --- files

HEAD = "from tailrace.pipeline import files, flow, topic\n"
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


def test_a_file_that_was_changed_within_a_second_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps bytecode by the size of a file and the second of its change, and the old flows were run again."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    names = []
    for name in ("one", "two"):
        path = write(tmp_path, GOOD.format(name))
        os.utime(path, (1_000, 1_000))
        names += [flow.name for flow in load_pipeline(path).flows]
    assert names == ["one", "two"]
    assert list(tmp_path.iterdir()) == [path]


WRONG_FILES = [
    ("", "p.py: the file declares no flows; declare one with @flow(source=…, sink=…)"),
    ("x = 1\ny = z\n", "p.py:2: NameError: name 'z' is not defined"),
    ("import no_such_module_anywhere\n", "p.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    ("x = 1\ndef f(:\n", "p.py:2: SyntaxError: invalid syntax"),
    (HEAD + "topic()\n", "p.py:2: topic() needs the name of a topic"),
    (HEAD + "@flow(source=topic('a'))\ndef f(x): return x\n", "p.py:2: flow f: sink is missing"),
    (GOOD.format("f") + GOOD.format("f"), "flow f: a flow of this name is already declared in line 2"),
    (HEAD + "raise SystemExit(3)\n", "p.py: the file exits instead of declaring flows"),
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


def test_two_flows_do_not_write_one_folder(tmp_path: Path) -> None:
    """Spark notes finished batches by number in the folder, so the second flow would have skipped its own."""
    path = tmp_path / "pipe.py"
    path.write_text("""
from tailrace.pipeline import files, flow, topic

@flow(source=topic("a"), sink=files("out"))
def first(rows): return rows

@flow(source=topic("b"), sink=files("./out/"))
def second(rows): return rows
""")
    with pytest.raises(
        PipelineError, match=r"flow second: flow first writes parquet files \./out/, too; use two folders"
    ):
        load_pipeline(path)


def test_two_flows_do_not_append_to_one_file(tmp_path: Path) -> None:
    """A flow that was interrupted cut off what the other one had appended."""
    path = tmp_path / "pipe.yaml"
    flow_text = "name: {name}\nsource: {{connector: topic, name: a}}\nsink: {{connector: lines, path: {path}}}\n"
    first, second = flow_text.format(name="first", path="out.txt"), flow_text.format(name="second", path="./out.txt")
    path.write_text(f"{first}---\n{second}")
    with pytest.raises(PipelineError, match=r"flow second: flow first writes lines of \./out\.txt, too; use two files"):
        load_pipeline(path)
