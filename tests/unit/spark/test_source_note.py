"""A flow whose file names another source than its checkpoint has a position in.

It went on in the new source at the position of the old one, so the beginning of the new one was left out in silence.
"""

from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import delta, flow, jdbc, lines, postgres, postgres_changes, s3, topic
from tailrace.spark.connector.base import Source
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import FlowPlan, plan_of
from tailrace.spark.pipeline.source_note import note_sources

pytest.importorskip("psycopg", reason="psycopg is not installed")

URL = "postgresql://ann:secret@one/shop"
JDBC = "jdbc:derby:memory:shop"


def plan(source: Source, folder: Path) -> FlowPlan:
    @flow(source=source, sink=topic("out"))
    def copy(rows: Any) -> Any:
        return rows

    return plan_of(copy, {"bootstrap.servers": "localhost:1"}, folder, folder)


def begin(started: FlowPlan) -> None:
    """Do what the start of a flow and its first batch do."""
    note_sources(started.checkpoint, started.places_read)
    (started.checkpoint / "offsets").mkdir()
    (started.checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (lines("a.txt"), lines("b.txt"), "file a.txt, and the source is file b.txt now"),
        (lines("a.txt"), topic("a"), "file a.txt, and the source is another one now"),
        (topic("a"), lines("a.txt"), "a topic, and the source is file a.txt now"),
        (s3("s3://one/a"), s3("s3://two/a"), "objects of s3://one/a, and the source is objects of s3://two/a now"),
        (jdbc(JDBC, table="a", cursor="id"), jdbc(JDBC, table="b", cursor="id"), "table a by id, and the source is "),
        (jdbc(JDBC, table="a", cursor="id"), jdbc(JDBC, table="a", cursor="at"), "the source is table a by at now"),
        (
            postgres(URL, table="a", cursor="id"),
            postgres(URL, table="b", cursor="id"),
            "table a with a cursor of database shop, and the source is table b with a cursor of database shop now",
        ),
        (postgres(URL, table="a"), postgres(URL, table="a", cursor="id"), "the source is table a with a cursor of"),
        (
            postgres_changes(URL, tables="a"),
            postgres_changes(URL, tables="a", slot="other"),
            "replication slot tailrace_copy, and the source is replication slot other now",
        ),
        (delta("a"), delta("b"), "delta table a, and the source is delta table b now"),
    ],
)
def test_a_position_elsewhere_is_refused(before: Source, now: Source, words: str, tmp_path: Path) -> None:
    begin(plan(before, tmp_path))
    with pytest.raises(FlowError) as caught:
        plan(now, tmp_path).connect()
    assert str(caught.value).startswith("flow copy: the checkpoint has a position in ")
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lines("a.txt"), lines("a.txt", max_lines=7)),
        (topic("a"), topic("b")),
        (jdbc(JDBC, query="SELECT a FROM t"), jdbc(JDBC, query="SELECT a, b FROM t")),
        (postgres(URL, table="a", cursor="id"), postgres(URL.replace("one", "two"), table="a", cursor="updated_at")),
    ],
)
def test_the_same_source_may_be_declared_in_another_way(before: Source, now: Source, tmp_path: Path) -> None:
    assert plan(before, tmp_path).places_read == plan(now, tmp_path).places_read


def test_a_flow_that_has_not_begun_may_change_its_source(tmp_path: Path) -> None:
    first = plan(lines("a.txt"), tmp_path)
    note_sources(first.checkpoint, first.places_read)
    second = plan(lines("b.txt"), tmp_path)
    second.connect()
    begin(second)
    with pytest.raises(FlowError, match=r"position in file b\.txt"):
        first.connect()


def test_a_checkpoint_of_an_earlier_version_is_taken_as_it_is(tmp_path: Path) -> None:
    begun = plan(lines("a.txt"), tmp_path)
    begin(begun)
    (begun.checkpoint / "sources.json").unlink()
    plan(lines("b.txt"), tmp_path).connect()


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    begun = plan(lines("a.txt"), tmp_path)
    begin(begun)
    (begun.checkpoint / "sources.json").write_text("[")
    with pytest.raises(PipelineError, match=r"sources\.json cannot be read"):
        begun.connect()
