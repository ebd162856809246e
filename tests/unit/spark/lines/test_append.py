"""Batches that are appended to a file, with crashes at every step."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.spark.connector.lines.append import NOTE, append_batch, join_lines, read_note
from tailrace.spark.error import ConnectorError, PipelineError


class Killed(Exception):
    """The end of the process."""


def killed_after(text: bytes) -> Iterator[bytes]:
    yield text
    raise Killed


def test_batches_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"old\n")
    assert append_batch(path, tmp_path / "checkpoint", 0, [b"a\n", b"b\n"])
    assert append_batch(path, tmp_path / "checkpoint", 1, [b"c\n"])
    assert path.read_bytes() == b"old\na\nb\nc\n"


def test_an_interrupted_batch_is_cut_off_before_it_is_written_again(tmp_path: Path) -> None:
    """Without the note of the length, the lines that were written before the crash would be there twice."""
    path = tmp_path / "out.txt"
    append_batch(path, tmp_path, 0, [b"a\n"])
    with pytest.raises(Killed):
        append_batch(path, tmp_path, 1, killed_after(b"b\n"))
    assert path.read_bytes() == b"a\nb\n"
    assert append_batch(path, tmp_path, 1, [b"b\n", b"c\n"])
    assert path.read_bytes() == b"a\nb\nc\n"


def test_another_file_is_not_cut_where_the_first_one_would_be(tmp_path: Path) -> None:
    """A flow that was interrupted, and whose file named another path after that, cut this file and lost its lines."""
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    with pytest.raises(Killed):
        append_batch(first, tmp_path, 0, killed_after(b"a\n"))
    second.write_bytes(b"kept\n")
    assert append_batch(second, tmp_path, 0, [b"a\n"])
    assert second.read_bytes() == b"kept\na\n"
    assert not append_batch(first, tmp_path, 0, killed_after(b"never read"))


def test_a_note_of_an_earlier_version_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"a\nb\n")
    (tmp_path / NOTE).write_text(json.dumps({"batch_id": 1, "start": 2, "is_complete": False}))
    assert append_batch(path, tmp_path, 1, [b"b\n"])
    assert path.read_bytes() == b"a\nb\n"


def test_a_complete_batch_that_comes_again_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    append_batch(path, tmp_path, 3, [b"a\n"])
    assert not append_batch(path, tmp_path, 3, killed_after(b"never read"))
    assert not append_batch(path, tmp_path, 2, killed_after(b"never read"))
    assert path.read_bytes() == b"a\n"


def test_a_file_that_was_removed_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    append_batch(path, tmp_path, 0, [b"a\n"])
    with pytest.raises(Killed):
        append_batch(path, tmp_path, 1, killed_after(b"b\n"))
    path.unlink()
    append_batch(path, tmp_path, 1, [b"b\n"])
    assert path.read_bytes() == b"b\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"batch 0 cannot be appended to .*missing/out.txt: No such file"):
        append_batch(tmp_path / "missing" / "out.txt", tmp_path, 0, [b"a\n"])


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"batch_id": "x", "start": 1, "is_complete": False})])
def test_a_damaged_note_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / NOTE).write_text(text)
    with pytest.raises(PipelineError, match="cannot be read; reset the flow"):
        read_note(tmp_path / NOTE)


def test_the_rows_of_a_batch_are_joined_without_an_object_for_each() -> None:
    first = pa.RecordBatch.from_arrays([pa.array([b"a", None, b"b\xff"], pa.binary())], ["line"])
    empty = first.slice(0, 0)
    assert [batch.column(0).to_pylist() for batch in join_lines(iter([first, empty]))] == [[b"a\n\nb\xff\n"]]
