"""Tables as sources: the rows of the first version, those that later ones add, and what cannot be followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.lake.lake_run import COLUMNS, FORMATS, LakeRun, make_sink, order

from tailrace.spark.connector.lake.maintenance import compact
from tailrace.spark.connector.lake.stream_position import StreamPosition
from tailrace.spark.error import ConnectorError, PipelineError

for package in ("deltalake", "obstore", "pyiceberg", "sqlalchemy", "pyspark"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from tailrace.spark.connector.lake.source import TableRead, TableStreamReader, read_files  # noqa: E402


@pytest.fixture(params=FORMATS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> LakeRun:
    lake = LakeRun(make_sink(request.param), tmp_path)
    lake.create()
    return lake


class Stream:
    """A query that reads a table, and is started again with the position that it has kept."""

    def __init__(self, run: LakeRun, files_max: int = 100, *, skips_changes: bool = False) -> None:
        self._read = TableRead(run.sink, run.place, COLUMNS, files_max, skips_changes)
        self.position: dict[str, Any] = StreamPosition().to_json()

    def batch(self) -> list[int]:
        """The ids of the next batch; none if there is nothing new."""
        reader: Any = TableStreamReader(self._read)
        end = reader.latestOffset(self.position, None)
        if end == self.position:
            return []
        again: Any = TableStreamReader(self._read)  # a repeated batch has the same rows
        found = [self._rows(each, self.position, end) for each in (reader, again)]
        assert found[0] == found[1]
        self.position = end
        return found[0]

    def _rows(self, reader: Any, start: Any, end: Any) -> list[int]:
        batches = [batch for part in reader.partitions(start, end) for batch in read_files(self._read, part)]
        return sorted(number for batch in batches for number in batch.column("id").to_pylist())


def test_rows_are_read_once_and_new_ones_follow(run: LakeRun) -> None:
    stream = Stream(run)
    assert stream.batch() == []
    for batch_id in range(3):
        run.write(batch_id, [order(batch_id)])
    assert stream.batch() == [0, 1, 2]
    assert stream.batch() == []
    run.write(3, [order(3)], [order(4)])
    compact(run.open(), files_min=2)
    run.write(4, [order(5)])
    assert stream.batch() == [3, 4, 5]
    assert stream.batch() == []


def test_a_batch_has_no_more_files_than_allowed(run: LakeRun) -> None:
    for batch_id in range(5):
        run.write(batch_id, [order(batch_id)])
    stream = Stream(run, 2)
    first = [stream.batch() for _ in range(3)]
    assert [len(each) for each in first] == [2, 2, 1]
    assert sorted(number for each in first for number in each) == [0, 1, 2, 3, 4]
    run.write(5, [order(5)], [order(6)], [order(7)])
    assert sorted([*stream.batch(), *stream.batch()]) == [5, 6, 7]
    assert stream.batch() == []


def test_a_version_that_deletes_rows_stops_the_stream_or_is_left_out(run: LakeRun, tmp_path: Path) -> None:
    run.write(0, [order(0), order(1)])
    strict, lenient = Stream(run), Stream(run, skips_changes=True)
    assert strict.batch() == lenient.batch() == [0, 1]
    format = "delta" if "delta" in str(run.sink) else "iceberg"
    changing = LakeRun(make_sink(format, key="id"), tmp_path)
    changing.write(0, [order(0, "Rome")])
    run.write(1, [order(2)])
    with pytest.raises(ConnectorError, match="replaces or deletes rows, which a stream of new rows cannot follow"):
        strict.batch()
    assert lenient.batch() == [2]


def test_a_version_that_has_expired_is_named(run: LakeRun) -> None:
    run.write(0, [order(0)])
    stream = Stream(run)
    stream.batch()
    run.write(1, [order(1)])
    run.write(2, [order(2)])
    if "delta" in str(run.sink):
        table: Any = run.open()
        table._table.create_checkpoint()
        for path in (run.folder / "orders" / "_delta_log").glob("*[0-2].json"):
            path.unlink()
    else:
        run.open().expire(0)
    with pytest.raises(ConnectorError, match="has expired before it was read; reset the flow"):
        stream.batch()


def test_arguments_of_sinks_and_sources_are_told_apart(run: LakeRun, tmp_path: Path) -> None:
    format = "delta" if "delta" in str(run.sink) else "iceberg"
    with pytest.raises(PipelineError, match="is a source, and key= is for a sink"):
        make_sink(format, key="id").check_source()
    with pytest.raises(PipelineError, match="is a sink, and skip_changes= is for a source"):
        make_sink(format, skip_changes=True).check_sink()
    with pytest.raises(PipelineError, match="max_files=0 is not a positive number"):
        make_sink(format, max_files=0)
    make_sink(format).check_source()
    with pytest.raises(PipelineError, match="does not exist"):
        make_sink(format).connect_source(LakeRun(run.sink, tmp_path / "elsewhere").place)
