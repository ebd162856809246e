"""The folder of a sink, in which Spark notes batches by their number alone."""

from pathlib import Path

import pytest

from tailrace.spark.connector.base import Delivery, FlowPlace
from tailrace.spark.connector.files import files
from tailrace.spark.error import PipelineError


def note(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def test_batches_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    """After a reset, Spark took as many batches for written as the folder had, and left their rows out in silence."""
    sink, place = files("kept"), FlowPlace("kept", tmp_path / "checkpoint", tmp_path)
    sink.connect_sink(place)
    note(place.checkpoint / "offsets", "0", "1", ".1.crc")
    note(tmp_path / "kept" / "_spark_metadata", "0", ".0.crc")
    sink.connect_sink(place)
    note(tmp_path / "kept" / "_spark_metadata", "1")  # the flow was killed before it noted the end of the batch
    sink.connect_sink(place)
    for left in (["0"], []):  # an older copy of the checkpoint, and none
        for path in (place.checkpoint / "offsets").iterdir():
            if path.name not in left:
                path.unlink()
        with pytest.raises(PipelineError, match="parquet files kept: the folder has batches up to number 1 of"):
            sink.connect_sink(place)
    note(tmp_path / "kept" / "_spark_metadata", "19.compact")
    with pytest.raises(PipelineError, match="up to number 19"):
        sink.connect_sink(place)


def test_files_that_no_reader_would_see_are_not_added(tmp_path: Path) -> None:
    """Where Spark has noted files, it reads only those, so all rows of a flow that notes none were lost for it."""
    sink = files("kept")
    place = FlowPlace("kept", tmp_path / "checkpoint", tmp_path, delivery=Delivery.AT_MOST_ONCE)
    (tmp_path / "kept").mkdir()
    sink.connect_sink(place)
    note(tmp_path / "kept" / "_spark_metadata", "0")
    with pytest.raises(PipelineError, match="parquet files kept: the folder has files of a flow that delivers exactly"):
        sink.connect_sink(place)
