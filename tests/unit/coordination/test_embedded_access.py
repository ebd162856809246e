"""A data folder that the broker's user may not use."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.store import Create
from tailrace.storage.error import StorageError


@pytest.mark.parametrize(
    ("denied", "verbs"),
    [({os.W_OK}, "write to"), ({os.R_OK, os.W_OK}, "read or write to"), ({os.X_OK}, "enter")],
)
def test_the_error_names_the_folder_and_what_is_missing(
    denied: set[int], verbs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's "unable to open database file" told neither. The test must pass for root too, to whom nothing is
    denied, so a file in the folder's place keeps SQLite out."""
    folder = tmp_path / "data"
    folder.write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: path == folder and mode not in denied)
    with pytest.raises(StorageError) as caught:
        EmbeddedStore(folder / "cluster-metadata.sqlite")
    assert str(caught.value) == f"{folder}: the broker's user may not {verbs} this folder"
    assert caught.value.cause.errno == errno.EACCES


def test_another_failure_is_told_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "cluster-metadata.sqlite"
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match=r"cluster-metadata\.sqlite: file is not a database"):
        EmbeddedStore(file)


def modes(folder: Path, stem: str) -> dict[str, int]:
    files = [file for file in folder.iterdir() if file.name.startswith(stem)]
    return {file.suffix: stat.S_IMODE(file.stat().st_mode) for file in files}


async def test_only_the_user_of_the_broker_reads_the_metadata(tmp_path: Path) -> None:
    """The file has the keys of users, and used to be readable to every user of the machine."""
    file = tmp_path / "cluster-metadata.sqlite"
    older = tmp_path / "older.sqlite"
    older.touch(mode=0o644)
    for path in (file, older):
        store = EmbeddedStore(path)
        await store.commit([Create("/a", b"1")])
        assert modes(tmp_path, path.stem) == {".sqlite": 0o600, ".sqlite-shm": 0o600, ".sqlite-wal": 0o600}
        await store.close()
