"""Lines out of files, however they are cut."""

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from tailrace.cli import line as line_module
from tailrace.cli.line import LineTooLong, read_lines


def lines_of(*paths: Path) -> tuple[list[bytes], int]:
    async def collect() -> tuple[list[bytes], int]:
        lines, size = [], 0
        async for chunk, size_bytes in read_lines(paths):
            lines += chunk
            size += size_bytes
        return lines, size

    return asyncio.run(collect())


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 1000])
def test_lines_do_not_depend_on_how_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(line_module, "_CHUNK_BYTES", chunk_bytes)
    first, second, empty = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    first.write_bytes(b"a\r\n\n\r\nbc\rd\nlast")
    second.write_bytes(b"\xff\xfe\n")
    empty.write_bytes(b"")
    assert lines_of(first, empty, second) == ([b"a", b"", b"", b"bc\rd", b"last", b"\xff\xfe"], 18)


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "LINE_BYTES_MAX", 10)
    path = tmp_path / "1"
    path.write_bytes(b"x" * 11)
    with pytest.raises(LineTooLong, match="10 bytes"):
        lines_of(path)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lines_of(tmp_path / "missing")


def test_whoever_stops_early_leaves_no_thread_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "_CHUNK_BYTES", 2)
    path = tmp_path / "1"
    path.write_bytes(b"x\n" * 1000)

    async def read_one() -> list[bytes]:
        async with aclosing(read_lines([path])) as chunks:
            async for lines, _ in chunks:
                return lines
        return []

    assert asyncio.run(read_one()) == [b"x"]
    for thread in threading.enumerate():
        if thread.name == "tailrace-input":
            thread.join(60)
            assert not thread.is_alive()
