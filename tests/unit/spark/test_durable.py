"""What is on the disk before a sink has a batch, or a source forgets it.

Spark brings no file of a checkpoint to the disk. After a power loss the last batch was planned again with more rows,
and a sink that had it left out all of them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.connector.base import Delivery, FlowPlace, Sink
from tailrace.spark.connector.durable import local_checkpoint, sync_batch, sync_end
from tailrace.spark.connector.postgres_changes.position import Position
from tailrace.spark.connector.postgres_changes.slot import Slot
from tailrace.spark.connector.postgres_changes.stream_reader import ChangesRead, ChangeStreamReader
from tailrace.spark.option import SinkOptions, parse_sink_options
from tailrace.spark.pipeline.at_most_once import at_most_once
from tailrace.spark.task_place import TaskPlace
from tailrace.spark.writer import MicroBatch, Prepared


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint after the plan of batch 12, of which batch 11 is finished."""
    folder = tmp_path / "checkpoint"
    for name in ("offsets/9", "offsets/11", "offsets/12", "offsets/.12.crc", "commits/11", "metadata"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.fixture
def events(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened: the paths in the checkpoint that were brought to the disk, and more."""
    found: list[str] = []
    paths = {path.stat().st_ino: str(path.relative_to(checkpoint)) for path in (checkpoint, *checkpoint.rglob("*"))}

    def note(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if inode in paths:
            found.append(paths[inode])

    monkeypatch.setattr(os, "fsync", note)
    return found


def test_the_plan_of_a_batch_is_brought_to_the_disk(checkpoint: Path, events: list[str]) -> None:
    sync_batch(checkpoint, 12)
    assert events == ["offsets/12", "offsets"]
    events.clear()
    sync_batch(checkpoint, 0)  # of a first start; there is no file of it here
    assert events == ["metadata", ".", "offsets"]


def test_the_list_of_the_files_of_a_batch_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not, and Spark cannot repeat a batch of its file source without it: the flow had to be reset."""
    for name in (
        "offsets/12",
        "sources/0/8",
        "sources/0/9.compact",
        "sources/0/10",
        "sources/0/.10.crc",
        "sources/1/7",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found: list[str] = []
    paths = {path.stat().st_ino: str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    monkeypatch.setattr(os, "fsync", lambda descriptor: found.append(paths[os.fstat(descriptor).st_ino]))
    sync_batch(tmp_path, 12)
    assert found == ["sources/0/10", "sources/0", "sources/1/7", "sources/1", "offsets/12", "offsets"]


def test_the_end_of_a_batch_is_brought_to_the_disk(checkpoint: Path, events: list[str], tmp_path: Path) -> None:
    sync_end(checkpoint)
    assert events == ["offsets/12", "offsets", "commits/11", "commits"]
    sync_end(tmp_path / "none")


class Writer:
    """What a flow gives to its sink."""

    function: Callable[[Any, int], None]

    def foreachBatch(self, function: Callable[[Any, int], None]) -> None:
        self.function = function


class Noting(Sink):
    """A sink that notes when it has written."""

    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE)

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def write_batch(self, batch: Any, batch_id: int, place: FlowPlace) -> None:
        self.events.append("written")


def test_a_sink_has_a_batch_after_its_plan_is_on_the_disk(checkpoint: Path, events: list[str]) -> None:
    writer: Any = Writer()
    Noting(events).write(writer, FlowPlace("flow", checkpoint, checkpoint))
    writer.function(None, 12)
    assert events == ["offsets/12", "offsets", "written"]
    events.clear()
    Noting(events).write(writer, FlowPlace("flow", checkpoint, checkpoint, delivery=Delivery.AT_LEAST_ONCE))
    writer.function(None, 12)
    assert events == ["written"], "the batch would be written again"


def test_a_batch_is_given_up_after_its_plan_is_on_the_disk(checkpoint: Path, events: list[str]) -> None:
    at_most_once(lambda *_: events.append("written"), lambda: None, "flow", checkpoint)(None, 12)  # type: ignore[arg-type]
    assert events[:2] == ["offsets/12", "offsets"]
    assert events[-1] == "written"


class Batch(MicroBatch):
    """A batch of a topic that notes when it is decided."""

    def __init__(self, options: SinkOptions, events: list[str]) -> None:
        super().__init__(options)
        self._events = events

    def open_desk(self, sink: str) -> Any:
        self._events.append("decided")
        raise InterruptedError


def test_a_topic_has_a_batch_after_its_plan_is_on_the_disk(checkpoint: Path, events: list[str]) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "topic": "out", "delivery": "exactly-once"}
    options = parse_sink_options({**given, "checkpointlocation": checkpoint.as_uri()})
    place = TaskPlace("query", "run", 12, 0)
    with pytest.raises(InterruptedError):
        Batch(options, events).commit([Prepared({"out": 1}, place, PreparedTransaction("id", 1, 1))])
    assert events == ["offsets/12", "offsets", "decided"]


def test_a_slot_is_advanced_after_the_end_of_the_batch_is_on_the_disk(
    checkpoint: Path, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    monkeypatch.setattr(Slot, "advance", lambda *_: events.append("advanced"))
    database: Any = None
    slot = Slot(database, "slot", "publication")
    reader = ChangeStreamReader(ChangesRead(slot, (), "shop", "shop", checkpoint / "record.json"))
    monkeypatch.setattr(ChangeStreamReader, "_connection", None)
    reader.commit(Position(7).to_json())
    assert events == ["offsets/12", "offsets", "commits/11", "commits", "advanced"]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b", "/a/b"),
        ("a b", "a b"),
        ("file:/a%20b", "/a%20b"),
        ("file:///a%20b/c?d#e", "/a%20b/c?d#e"),
        ("file:///a", "/a"),
        ("hdfs://h/a", None),
    ],
)
def test_only_folders_of_this_machine_are_brought_to_the_disk(location: str, expected: str | None) -> None:
    """Spark does not decode a location, so with `%20` in it the checkpoint was looked for in another folder."""
    assert local_checkpoint(location) == (None if expected is None else Path(expected))
