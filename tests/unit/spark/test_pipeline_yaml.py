"""Pipelines in YAML: what is read, and that every mistake is told with its line."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import Files, PipelineError, Topic
from tailrace.spark.pipeline.load import load_pipeline

ORDERS = """
name: large_orders
source: {connector: topic, name: orders, schema: "user string, cents bigint", start: latest}
sql: SELECT user, cents FROM source WHERE cents > 10000
sink: {connector: topic, name: large_orders, key: user, partitions: 3}
mode: update
every: 5 seconds
"""


def load(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "pipe.yaml"
    path.write_text(text)
    return load_pipeline(path)


def test_a_document_is_a_flow(tmp_path: Path) -> None:
    loaded = load(tmp_path, ORDERS)
    (declared,) = loaded.flows
    assert loaded.module is None
    assert (declared.name, declared.mode, declared.every) == ("large_orders", "update", "5 seconds")
    assert declared.sources == (Topic(("orders",), schema="user string, cents bigint", start="latest"),)
    assert declared.sink == Topic(("large_orders",), key="user", partitions=3)


def test_several_documents_are_several_flows(tmp_path: Path) -> None:
    text = (
        ORDERS + "---\nname: archive\nsource: {connector: topic, name: [a, b]}\nsink: {connector: files, path: out}\n"
    )
    loaded = load(tmp_path, f"{text}---\n")
    assert [declared.name for declared in loaded.flows] == ["large_orders", "archive"]
    assert loaded.flows[1].sources == (Topic(("a", "b")),)
    assert loaded.flows[1].sink == Files("out")


def test_a_flow_without_a_query_keeps_its_rows(tmp_path: Path) -> None:
    text = "name: copy\nsource: {connector: topic, name: a}\nsink: {connector: topic, name: b, format: raw}\n"
    frame: Any = object()
    assert load(tmp_path, text).flows[0](frame) is frame


def test_sources_have_the_names_of_the_query(tmp_path: Path) -> None:
    text = """
name: joined
sources:
  orders: {connector: topic, name: orders, schema: "id int"}
  users: {connector: topic, name: people, schema: "id int"}
sql: SELECT * FROM orders JOIN users USING (id)
sink: {connector: files, path: out}
"""
    (declared,) = load(tmp_path, text).flows
    assert [source.names for source in declared.sources] == [("orders",), ("people",)]


def test_merged_keys_are_read_and_the_own_ones_replace_them(tmp_path: Path) -> None:
    text = """
name: joined
sources:
  orders: &orders {connector: topic, name: orders, schema: "id int"}
  users:
    <<: *orders
    name: people
sql: SELECT * FROM orders JOIN users USING (id)
sink: {connector: files, path: out}
"""
    (declared,) = load(tmp_path, text).flows
    assert declared.sources == (Topic(("orders",), schema="id int"), Topic(("people",), schema="id int"))


SOURCE = "source: {connector: topic, name: a}"
SINK = "sink: {connector: topic, name: b}"
WRONG = [
    ("", "pipe.yaml: the file declares no flows; a flow has the keys name, source, sql and sink"),
    ("- 1", "pipe.yaml:1: a flow is a mapping of names to values"),
    ("name: [a", "pipe.yaml:1: the file is not YAML: "),
    ("name: a\n\tsource: b", "pipe.yaml:2: the file is not YAML: "),
    (f"{SOURCE}\n{SINK}", "pipe.yaml:1: a flow has no name"),
    (f"name: a b\n{SOURCE}\n{SINK}", "pipe.yaml:1: 'a b' is not a name: use letters, digits, '_', '-' and '.'"),
    (f"name: 7\n{SOURCE}\n{SINK}", "pipe.yaml:1: name is a text, not 7"),
    (f"name: a\nname: b\n{SOURCE}\n{SINK}", "pipe.yaml:2: the key name is already given in line 1"),
    (
        f"name: a\n{SOURCE}\n{SINK}\nexpect:\n  x: n > 0\n  x: n > 1",
        "pipe.yaml:6: the key x is already given in line 5",
    ),
    (f"name: running.lock\n{SOURCE}\n{SINK}", "pipe.yaml:1: a flow cannot be called running.lock"),
    (f"name: {'a' * 201}\n{SOURCE}\n{SINK}", "pipe.yaml:1: a name has at most 200 characters, not 201"),
    (f"name: a\n{SOURCE}\n{SINK}\nexpect:", "pipe.yaml:4: expect has no value"),
    (f"name: a\n{SOURCE}\n{SINK}\nsql:", "pipe.yaml:4: sql is a text, not None"),
    (f"name: a\nsource: {{connector: topic, name: b, schema: }}\n{SINK}", "pipe.yaml:2: schema has no value"),
    (f"name: a\nsource: {{connector: topic, name: !!int x}}\n{SINK}", "pipe.yaml:2: the value is not of the kind int"),
    (
        f"name: a\nsource: {{connector: topic, name: b, start: 2026-99-99}}\n{SINK}",
        "pipe.yaml:2: the value is not of the kind timestamp",
    ),
    (
        f"name: a\nsource: {{connector: topic, name: 5}}\n{SINK}",
        "pipe.yaml:2: name is a text or a list of texts, not 5",
    ),
    (
        f"name: a\nsource: {{connector: topic, name: {{b: c}}}}\n{SINK}",
        "pipe.yaml:2: name is a text or a list of texts, not {'b': 'c'}",
    ),
    (
        f"name: a\n{SOURCE}\nsink: {{connector: topic, name: b, key: 5}}",
        "pipe.yaml:3: key is a text or a list of texts, not 5",
    ),
    (f"name: a\n{SOURCE}\nsink: {{connector: files, path: [b]}}", "pipe.yaml:3: path is a text, not ['b']"),
    (
        f"name: a\nsource: {{connector: topic, name: b, options: [c]}}\n{SINK}",
        "pipe.yaml:2: options is a mapping of names to values, not ['c']",
    ),
    (
        f"name: a\nsource: {{connector: topic, name: b, include: 5}}\n{SINK}",
        "pipe.yaml:2: include is a text or a list of texts, not 5",
    ),
    (f"name: a\nsource: {'[' * 3000}{']' * 3000}\n{SINK}", "pipe.yaml: the file is nested too deeply"),
    (
        f'name: a\nsources: {{"x`y": {{connector: topic, name: b}}}}\nsql: SELECT 1\n{SINK}',
        "pipe.yaml:2: 'x`y' is not a name: use letters, digits, '_', '-' and '.'",
    ),
    (
        f"name: a\nsources:\n  x: {{connector: topic, name: b}}\n  X: {{connector: topic, name: c}}\n{SINK}",
        "pipe.yaml:3: the names of sources differ only in case, which SQL ignores: x",
    ),
    (f"name: a\n{SINK}", "pipe.yaml:1: a flow has either source or sources"),
    (f"name: a\n{SOURCE}", "pipe.yaml:1: flow a: sink is missing; a flow writes to a sink such as topic(…)"),
    (f"name: a\n{SOURCE}\n{SINK}\nsinks: b", "pipe.yaml:4: a flow has no key sinks; did you mean sink?"),
    (f"name: a\nsource: b\n{SINK}", "pipe.yaml:2: source is a mapping of names to values"),
    (
        f"name: a\nsource: {{name: b}}\n{SINK}",
        "pipe.yaml:2: source has no connector; the connectors are ",
    ),
    (
        f"name: a\nsource:\n  name: b\n  conector: topic\n{SINK}",
        "pipe.yaml:4: source has no key conector; did you mean connector?",
    ),
    (f"name: a\n{SOURCE}\nsink: {{connector: lines}}", "pipe.yaml:3: connector lines needs the key path"),
    (
        f"name: a\nsource: {{connector: topics}}\n{SINK}",
        "pipe.yaml:2: there is no connector topics; did you mean topic?",
    ),
    (f"name: a\nsource: {{connector: topic}}\n{SINK}", "pipe.yaml:2: topic() needs the name of a topic"),
    (
        f"name: a\nsource:\n  connector: topic\n  name: b\n  shema: x\n{SINK}",
        "pipe.yaml:5: connector topic has no key shema; did you mean schema?",
    ),
    (
        f"name: a\nsource: {{connector: topic, name: b, malformed: drop}}\n{SINK}",
        "pipe.yaml:2: topic('b'): malformed='drop' is not \"null\"; errors= of the flow has the choices",
    ),
    (
        f"name: a\n{SOURCE}\n{SINK}\nerrors: {{two: dead}}",
        'pipe.yaml:4: flow a: errors= is "stop", "skip", or a mapping such as {"to": "orders_errors"}; the key is to',
    ),
    (f"name: a\n{SOURCE}\n{SINK}\nmode: all", "pipe.yaml:4: flow a: mode='all' is not one of append, update, complete"),
    (
        f"name: a\nsources: {{x: {{connector: topic, name: b}}, y: {{connector: topic, name: c}}}}\n{SINK}",
        "pipe.yaml:1: a flow with several sources needs sql",
    ),
    (
        f"name: a\n{SOURCE}\n{SINK}\n---\nname: a\n{SOURCE}\n{SINK}",
        "pipe.yaml:5: flow a: a flow of this name is already declared in line 1",
    ),
]


SIX_LINES = f"name: a\n\n{SINK}\nsource:\n  connector: topic\n  name: c\n"
IN_LINE_7 = [
    (f"{SIX_LINES}  start: yesterday", "topic('c'): start='yesterday' is neither"),
    (f"{SIX_LINES}  malformed: drop", "topic('c'): malformed='drop' is not"),
    (f"{SIX_LINES}  schema: [n int]", "topic('c'): schema=['n int'] is not a schema"),
    (
        f"name: a\n{SINK}\nsource:\n  connector: postgres\n  table: t\n  cursor: at\n  url: mysql://db/x",
        "postgres(table='t'): url= is a text such as",
    ),
    (f"{SIX_LINES}delivery: exactly-twice", "flow a: delivery='exactly-twice' is not one of"),
    (f"{SIX_LINES}every: 5 parsecs", "flow a: every='5 parsecs' is not a duration"),
    (f"{SIX_LINES}state: heap", "flow a: state='heap' is not one of"),
    (
        f"name: a\n{SOURCE}\n{SINK}\nexpect:\n  positive:\n    rule: n > 0\n    on_fail: drup",
        "flow a: expect=: positive: on_fail='drup' is not one of",
    ),
]


@pytest.mark.parametrize(("text", "message"), IN_LINE_7)
def test_an_argument_that_is_wrong_is_told_with_its_own_line(tmp_path: Path, text: str, message: str) -> None:
    """The first line of the flow, or of its source, was named instead, however long they were."""
    with pytest.raises(PipelineError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"pipe.yaml:7: {message}")


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(message)


def test_values_that_yaml_could_make_objects_of_stay_refused(tmp_path: Path) -> None:
    text = f"name: a\nsource: {{connector: topic, name: !!python/object/apply:os.getcwd []}}\n{SINK}"
    with pytest.raises(PipelineError, match=r"^pipe\.yaml:2: the file is not YAML: could not determine a constructor"):
        load(tmp_path, text)


def test_arguments_are_those_of_the_connector(tmp_path: Path) -> None:
    """A list of key columns, and a name that is not a place, were refused."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    text = (
        "name: a\nsource: {connector: postgres_changes, url: 'postgresql://db/x', tables: [public.t], name: sales}\n"
        "sink: {connector: postgres, url: 'postgresql://db/x', table: t, key: [id, line]}"
    )
    (found,) = load(tmp_path, text).flows
    assert getattr(found.sink, "key", None) == ("id", "line")
    with pytest.raises(PipelineError, match=r"key=\['id'\] is not the name of a column"):
        load(tmp_path, "name: a\nsource: {connector: topic, name: a}\nsink: {connector: topic, name: b, key: [id]}")
