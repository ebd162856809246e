"""The fingerprints of batches, from the files of a checkpoint."""

import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.desk_model import Brokers, ModelDesk

from tailrace.spark.connector.batch_plan import is_other, read_plan
from tailrace.spark.option import parse_sink_options

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'


def plan(checkpoint: Path, batch_id: int, *ends: str, metadata: str = METADATA) -> str | None:
    """The fingerprint of a batch that ends there."""
    path = checkpoint / "offsets" / str(batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", metadata, *ends]))
    return read_plan(checkpoint, batch_id)


def log_files(checkpoint: Path, source: int, name: str, *files: str) -> None:
    path = checkpoint / "sources" / str(source) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *files]))


def test_a_repeated_batch_has_the_same_plan(tmp_path: Path) -> None:
    first = plan(tmp_path, 7, '{"orders":{"0":5}}', "-")
    assert first is not None
    assert first.startswith("7:")
    assert read_plan(tmp_path, 7) == first
    assert plan(tmp_path, 7, '{"orders":{"0":5}}', "-", metadata=METADATA.replace("17", "18")) == first
    assert not is_other(first, first)


def test_a_batch_that_ends_elsewhere_has_another_plan(tmp_path: Path) -> None:
    first = plan(tmp_path, 7, '{"orders":{"0":5}}', "-")
    for ends in (('{"orders":{"0":6}}', "-"), ("-", '{"orders":{"0":5}}'), ('{"orders":{"0":5}}', '{"a":{"0":1}}')):
        assert is_other(first, plan(tmp_path, 7, *ends))


def test_a_batch_of_other_files_has_another_plan(tmp_path: Path) -> None:
    """Spark's file source only counts its batches."""
    ends = '{"orders":{"0":5}}', '{"logOffset":9}'
    log_files(tmp_path, 1, "9.compact", "a", "b")
    first = plan(tmp_path, 7, *ends)
    assert first == read_plan(tmp_path, 7) is not None
    log_files(tmp_path, 1, "9.compact", "a", "c")
    assert is_other(first, plan(tmp_path, 7, *ends))
    log_files(tmp_path, 1, "3", "a")
    assert is_other(plan(tmp_path, 7, "-", '{"logOffset":3}'), plan(tmp_path, 7, "-", '{"logOffset":9}'))
    assert plan(tmp_path, 7, '{"logOffset":-1}') is not None


@pytest.mark.parametrize("order", ["aa", "aab", "aba", "baa"])
def test_a_source_that_is_read_twice_has_one_log(tmp_path: Path, order: str) -> None:
    """Such a batch had no fingerprint: Spark writes an end for each occurrence, and has a log for each source."""
    numbers = {"a": 7, "b": 5}
    log_of = {source: index for index, source in enumerate(dict.fromkeys(order))}
    ends = [f'{{"logOffset":{numbers[source]}}}' for source in order]
    for source in order:
        log_files(tmp_path, log_of[source], str(numbers[source]), "x")
    first = plan(tmp_path, 9, *ends)
    assert first == read_plan(tmp_path, 9) is not None
    for source in order:
        log_files(tmp_path, log_of[source], str(numbers[source]), "y")
        assert is_other(first, plan(tmp_path, 9, *ends))
        log_files(tmp_path, log_of[source], str(numbers[source]), "x")
    (tmp_path / "sources" / str(log_of["a"]) / "7").unlink()
    assert plan(tmp_path, 9, *ends) is None, "Spark has deleted the log"


def test_the_log_of_many_files_is_not_read_into_memory(tmp_path: Path) -> None:
    """A compacted log of Spark's file source lists all files that the query has read."""
    log_files(tmp_path, 0, "9.compact", *(f"file:///data/{number:0100}.json" for number in range(60_000)))
    size_bytes = (tmp_path / "sources" / "0" / "9.compact").stat().st_size
    tracemalloc.start()
    try:
        assert plan(tmp_path, 7, '{"logOffset":9}') is not None
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < size_bytes / 4


def test_a_plan_that_is_not_known_is_no_other_one(tmp_path: Path) -> None:
    first = plan(tmp_path, 7, "-")
    assert read_plan(None, 7) is read_plan(tmp_path, 8) is None
    assert plan(tmp_path, 7, '{"logOffset":4}') is None, "Spark has deleted the log"
    for noted, new in ((None, first), ("", first), (first, None)):
        assert not is_other(noted, new)


@pytest.mark.parametrize("number", [6, 70, 77])
def test_the_plan_of_another_batch_says_nothing(tmp_path: Path, number: int) -> None:
    """An earlier version notes the number of its batch, and leaves the plan of the last one."""
    assert not is_other(plan(tmp_path, number, "a"), plan(tmp_path, 7, "b"))


def test_the_decision_about_a_batch_of_a_topic_has_its_plan(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from tailrace.spark.task_place import TaskPlace
    from tailrace.spark.writer import MicroBatch, Prepared

    brokers = Brokers()

    class Batch(MicroBatch):
        def open_desk(self, sink: str) -> Any:
            return nullcontext(ModelDesk(brokers))

    given = {"kafka.bootstrap.servers": "h:1", "topic": "out", "delivery": "exactly-once"}
    options = parse_sink_options({**given, "checkpointlocation": tmp_path.as_uri()})
    first = plan(tmp_path, 12, '{"orders":{"0":5}}')
    prepared = Prepared({"out": 1}, TaskPlace("query", "run", 12, 0), brokers.prepare(12, "run", 0))
    Batch(options).commit([prepared])
    assert brokers.decision is not None
    assert brokers.decision.plan == first is not None
