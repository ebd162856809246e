"""The batches of a file that grows."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.spark.connector.lines.lines import lines
from tailrace.spark.connector.lines.position import GrowingFile
from tailrace.spark.connector.lines.stream_reader import LineStreamReader, split_lines
from tailrace.spark.error import DataLossError, PipelineError


def test_a_batch_ends_behind_a_line(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "in.txt")
    assert file.find_end(0) == 0  # the file is not there yet
    file.path.write_bytes(b"one\ntwo\nhal")
    assert file.find_end(0) == 8
    assert file.find_end(8) == 8
    file.path.write_bytes(b"one\ntwo\nhalf\n")
    assert file.find_end(8) == 13
    assert file.read(8, 13) == b"half\n"


def test_a_batch_has_a_limit_of_lines_and_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n3\n4\n")
    assert GrowingFile(path, max_lines=3).find_end(0) == 6
    assert GrowingFile(path, max_lines=9).find_end(0) == 8
    assert GrowingFile(path, batch_bytes=5).find_end(0) == 4
    assert GrowingFile(path).find_end(0, until=7) == 6


def test_a_line_may_be_longer_than_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"a" * 20 + b"\nb\n")
    file = GrowingFile(path, batch_bytes=8)
    assert file.find_end(0) == 23
    assert GrowingFile(path, max_lines=1, batch_bytes=8).find_end(0) == 21


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"one\n")
    with pytest.raises(DataLossError, match=r"has 4 bytes, and 9 were read: it was cut or replaced. Reset the flow"):
        GrowingFile(path).find_end(9)
    with pytest.raises(DataLossError, match="has lost bytes 4 to 9"):
        GrowingFile(path).read(0, 9)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\rc\n", ["a", "b", "c"]),
        (b"\n\n", ["", ""]),
        ("ä\n".encode(), ["ä"]),
        (b"\xff\n", ["\ufffd"]),
        (b"no end", ["no end"]),
    ],
)
def test_lines_end_as_java_takes_it(found: bytes, expected: list[str]) -> None:
    assert [value for batch in split_lines(found) for value in batch.column(0).to_pylist()] == expected


@pytest.mark.parametrize(("path", "max_lines"), [("", None), ("s3://x/y", None), ("a", 0), ("a", True)])
def test_wrong_arguments_are_refused(path: str, max_lines: int | None) -> None:
    with pytest.raises(PipelineError, match=r"^lines\("):
        lines(path, max_lines=max_lines)


@pytest.mark.parametrize("start", [-1, True, "5"])
def test_a_start_is_a_position(start: Any) -> None:
    with pytest.raises(PipelineError, match="is not a position in bytes"):
        lines("a", start=start)


def test_a_new_flow_begins_at_the_start(tmp_path: Path) -> None:
    assert LineStreamReader(GrowingFile(tmp_path / "in.txt"), 5).initialOffset() == {"position": 5}


@pytest.mark.parametrize("arguments", [{"max_lines": 1}, {"start": 1}])
def test_an_argument_of_sources_is_not_for_sinks(arguments: dict[str, int]) -> None:
    with pytest.raises(PipelineError, match=f"{next(iter(arguments))}= is for a source"):
        lines("a", **arguments).check_sink()
