"""The real file system keeps the promises that storage builds on."""

import errno
import os
from pathlib import Path

import pytest
from tests.unit.storage.open_file import open_files

from tailrace.storage.error import StorageError
from tailrace.storage.fs import RealFileSystem, write_atomically


@pytest.fixture
def fs() -> RealFileSystem:
    return RealFileSystem()


def test_write_and_read_at_a_position(fs: RealFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "a"))
    file.write_at(b"hello world", 0)
    file.write_at(memoryview(b"W"), 6)
    assert file.read_at(0, 100) == b"hello World"
    assert file.read_at(6, 3) == b"Wor"
    assert file.read_at(50, 3) == b""


def test_a_cached_read_sees_what_was_written(fs: RealFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "a"))
    file.write_at(b"x" * 10_000, 0)
    data = file.read_cached_at(10, 9_000)
    assert data is not None
    assert bytes(data) == b"x" * 9_000


def test_a_cached_read_of_cold_bytes_gives_none(
    fs: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.create(str(tmp_path / "a"))
    file.write_at(b"x" * 100, 0)

    def would_block(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "cold")

    monkeypatch.setattr(os, "preadv", would_block)
    assert file.read_cached_at(0, 100) is None
    monkeypatch.setattr(os, "preadv", lambda *_: 40)
    assert file.read_cached_at(0, 100) is None


def test_a_cached_read_falls_back_where_the_flag_is_unknown(
    fs: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.create(str(tmp_path / "a"))
    file.write_at(b"x" * 100, 0)

    def unsupported(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no such flag")

    monkeypatch.setattr(os, "preadv", unsupported)
    assert file.read_cached_at(0, 100) == b"x" * 100


def test_short_writes_are_continued(fs: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fs.create(str(tmp_path / "a"))
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: real(descriptor, bytes(data)[:3], at))
    file.write_at(b"hello world", 2)
    assert file.read_at(0, 100) == b"\0\0hello world"


def test_a_write_that_stops_half_way_is_an_error(
    fs: RealFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.create(str(tmp_path / "a"))
    answers = iter([3, 0])
    monkeypatch.setattr(os, "pwrite", lambda *_: next(answers))
    with pytest.raises(StorageError) as caught:
        file.write_at(b"hello", 0)
    assert caught.value.is_shortage


def test_a_file_outlives_its_name(fs: RealFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    file = fs.create(path)
    file.write_at(b"still here", 0)
    fs.remove(path)
    assert file.read_at(0, 100) == b"still here"


def test_a_dropped_file_gives_its_descriptor_back(fs: RealFileSystem, tmp_path: Path) -> None:
    kept = fs.create(str(tmp_path / "kept"))
    for number in range(50):
        fs.create(str(tmp_path / str(number)))
    assert open_files(tmp_path) == [str(tmp_path / "kept")]
    del kept


def test_creating_empties_a_file(fs: RealFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    fs.write_file(path, b"long contents")
    fs.write_file(path, b"short")
    assert fs.read_file(path) == b"short"
    fs.create(path)
    assert fs.read_file(path) == b""


def test_atomic_writing_leaves_no_temporary_file(fs: RealFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    write_atomically(fs, path, b"one")
    write_atomically(fs, path, b"two")
    assert fs.read_file(path) == b"two"
    assert [entry.name for entry in fs.list_directory(str(tmp_path))] == ["a"]


def test_what_is_missing_is_no_error_where_that_is_the_wish(fs: RealFileSystem, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    fs.remove(missing)
    fs.remove_directory(missing)
    fs.sync_file(missing)
    fs.sync_directory(missing)
    assert fs.read_file(missing) is None
    assert not fs.exists(missing)


def test_errors_name_the_path(fs: RealFileSystem, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for operation in (fs.open, fs.list_directory):
        with pytest.raises(StorageError) as caught:
            operation(missing)
        assert caught.value.path == missing
        assert caught.value.cause.errno == errno.ENOENT
        assert not caught.value.is_shortage


def test_listing_tells_folders_from_files(fs: RealFileSystem, tmp_path: Path) -> None:
    fs.make_directory(str(tmp_path / "folder" / "inner"))
    fs.write_file(str(tmp_path / "file"), b"12345")
    entries = {entry.name: entry for entry in fs.list_directory(str(tmp_path))}
    assert entries["folder"].is_directory
    assert not entries["file"].is_directory
    assert entries["file"].size_bytes == 5
    assert entries["file"].modified_ms > 0


def test_a_lock_is_held_until_it_is_dropped(fs: RealFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = fs.lock(path)
    with pytest.raises(StorageError):
        fs.lock(path)
    del lock
    fs.lock(path)


def test_truncate_and_sync(fs: RealFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    file = fs.create(path)
    file.write_at(b"hello world", 0)
    file.truncate(5)
    file.sync()
    fs.sync_file(path)
    fs.sync_directory(str(tmp_path))
    assert fs.read_file(path) == b"hello"
    fs.rename(path, str(tmp_path / "b"))
    assert fs.read_file(str(tmp_path / "b")) == b"hello"
